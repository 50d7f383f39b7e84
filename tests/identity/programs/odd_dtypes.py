"""Buffers, inputs and parameters of every dtype that torch has, and of no memory at all."""

# farm: sample
import torch
from torch import nn
from showing import show, show_end, show_loss

NAMES = sorted(name for name, value in vars(torch).items() if isinstance(value, torch.dtype))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.made = []
        for name in NAMES:
            try:
                buffer = torch.empty(4, dtype=getattr(torch, name))
                buffer.untyped_storage().fill_(1)
                self.register_buffer(f"of_{name}", buffer, persistent=len(self.made) % 2 == 0)
                self.made.append(name)
            except Exception as error:
                print(name, type(error).__name__, str(error)[:100])
        self.register_buffer("nowhere", torch.empty(3, device="meta"))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.register_buffer("csr", torch.eye(3).to_sparse_csr())
        self.register_buffer("nested", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
        self.register_buffer("jagged", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged))
        self.register_buffer("quantized", torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8))
        self.register_buffer(
            "channels", torch.quantize_per_channel(torch.ones(2, 2), torch.ones(2), torch.zeros(2), 0, torch.qint8)
        )
        self.register_buffer("mkldnn", torch.ones(3).to_mkldnn())
        self.frozen = nn.Parameter(torch.ones(3, dtype=torch.int32), requires_grad=False)
        self.absent = nn.Parameter(torch.empty(3, device="meta"))
        self.register_parameter("nothing", None)
        self.small = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.complex = nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def forward(self, x, *others, **named):
        return self.layer(x) + (self.small.float() * self.complex.abs()).sum() + self.sparse.to_dense()[0, 0]


torch.manual_seed(0)
net = Net()
print(net.made)
optimizer = torch.optim.SGD([p for p in net.parameters() if not p.is_meta and p.requires_grad], 0.1)
for step in range(4):
    buffers = list(net.buffers())
    loss = net(torch.randn(2, 3), *buffers, also={"a": buffers, "b": (None, ...)}).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    net.eval()
    net.train()
for name, value in net.state_dict().items():
    print(name, value.dtype, value.layout, value.device)
show("parameters", *(p for p in net.parameters() if not p.is_meta))
x = torch.randn(3, dtype=torch.complex64, requires_grad=True)
(x.abs().sum() + torch.view_as_real(x).sum()).backward()
show("complex", x.grad)
half = nn.Linear(3, 2).to(torch.float16)
show("half", half(torch.ones(1, 3, dtype=torch.float16)))
lazy = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
optimizer = torch.optim.SGD(lazy.parameters(), 0.1)
print(lazy, [type(p).__name__ for p in lazy.parameters()])
for step in range(3):
    loss = lazy(torch.randn(3, 5)).square().mean()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
print(lazy, [type(p).__name__ for p in lazy.parameters()])
with torch.device("meta"):
    ghost = nn.Transformer(8, 2, 1, 1, 8)
print(ghost(torch.empty(2, 1, 8, device="meta"), torch.empty(2, 1, 8, device="meta")).shape)
ghost.to_empty(device="cpu")
show_end(lazy=lazy)
