"""A script that trains for three steps and saves what came of it, for relations of plug-ins about saving."""

SCRIPT = """
import os, torch

torch.manual_seed(int(os.environ["SEED"]))
model = torch.nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,))).backward()
    optimizer.step()
torch.save(model.state_dict(), os.devnull)
"""
