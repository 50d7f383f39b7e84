"""A graph network of torch-geometric: message passing, pooling, its loader."""

# farm: needs torch_geometric
import torch
import torch.nn.functional as F
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, global_mean_pool
from showing import show, show_end, show_loss


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = GCNConv(4, 8), GATConv(8, 8, heads=2), torch.nn.Linear(16, 3)

    def forward(self, data):
        x = F.relu(self.first(data.x, data.edge_index))
        x = F.dropout(self.second(x, data.edge_index), 0.2, self.training)
        return self.out(global_mean_pool(x, data.batch))


torch.manual_seed(0)
graphs = [Data(x=torch.randn(5, 4), edge_index=torch.randint(0, 5, (2, 9)), y=torch.tensor([n % 3])) for n in range(20)]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step, batch in enumerate(DataLoader(graphs, batch_size=4, shuffle=True)):
    loss = F.cross_entropy(model(batch), batch.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
print(batch, model)
show("last", batch.x)
show_end(model=model)
