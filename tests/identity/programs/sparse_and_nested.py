"""Sparse embeddings and their gradients, sparse matrices, nested and jagged tensors, a graph network by hand."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.bags = nn.Embedding(20, 6, sparse=True), nn.EmbeddingBag(20, 6, mode="sum", sparse=True)
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, nodes, edges):
        neighbours = torch.sparse_coo_tensor(edges, torch.ones(edges.size(1)), (len(nodes), len(nodes))).coalesce()
        h = torch.sparse.mm(neighbours, F.relu(self.first(self.words(nodes) + self.bags(nodes[:, None]))))
        h = h.scatter_add(0, edges[0][:, None].expand(-1, 6), h[edges[1]])
        return self.second(h.index_select(0, edges[0].unique()))


torch.manual_seed(0)
model = Graph()
dense = torch.optim.Adam([*model.first.parameters(), *model.second.parameters()], 1e-2)
sparse = torch.optim.SparseAdam([*model.words.parameters(), *model.bags.parameters()], 1e-2)
for step in range(5):
    nodes, edges = torch.randint(0, 20, (6,)), torch.randint(0, 6, (2, 10))
    out = model(nodes, edges)
    loss = F.cross_entropy(out, torch.zeros(len(out), dtype=torch.long))
    dense.zero_grad()
    sparse.zero_grad()
    loss.backward()
    print(model.words.weight.grad.is_sparse, model.words.weight.grad.coalesce().indices().tolist())
    dense.step()
    sparse.step()
    show_loss(step, loss)
layer = nn.Linear(6, 2)
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for step in range(3):
    jagged = torch.nested.nested_tensor([torch.randn(3, 6), torch.randn(5, 6)], layout=torch.jagged)
    loss = layer(jagged).values().square().mean()
    strided = torch.nested.nested_tensor([torch.randn(2, 6), torch.randn(4, 6)])
    loss = loss + torch.nested.to_padded_tensor(F.linear(strided, layer.weight, layer.bias), 0.0).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
rows = torch.eye(6).to_sparse_csr()
show("csr", (rows @ torch.ones(6, 2)), torch.sparse.softmax(torch.eye(3).to_sparse(), 1).to_dense())
show_end(model=model, layer=layer)
