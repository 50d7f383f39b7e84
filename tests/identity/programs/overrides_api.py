"""What torch.overrides says about torch: overridable functions, names, testing overrides, ignored functions."""

import inspect

import torch
import torch.nn.functional as F
from torch import overrides
from showing import show_end, show_loss

table = overrides.get_overridable_functions()
for space, functions in sorted(table.items(), key=lambda item: str(item[0])):
    print(getattr(space, "__name__", space), len(functions), len(set(functions)))
testing, ignored = overrides.get_testing_overrides(), overrides.get_ignored_functions()
print(len(testing), len(ignored))
for function in (
    F.linear,
    F.cross_entropy,
    F.dropout,
    F.layer_norm,
    F.embedding,
    F.mse_loss,
    torch.matmul,
    torch.Tensor.add,
    torch.Tensor.backward,
    F.scaled_dot_product_attention,
    torch.Tensor.sum,
    F.gelu,
    F.nll_loss,
    F.multi_head_attention_forward,
    torch.Tensor.masked_fill,
    torch.nn.init.uniform_,
    torch.rand,
    torch.randn,
    torch.manual_seed,
    torch.einsum,
    torch.cat,
):
    print(
        overrides.resolve_name(function),
        function in testing,
        function in ignored,
        overrides.is_tensor_method_or_property(function),
        any(function in found for found in table.values()),
        callable(testing.get(function)) and str(inspect.signature(testing[function])),
    )
names = [overrides.resolve_name(function) for functions in table.values() for function in functions]
print(len(names), sorted(str(name) for name in names)[:1500:7])


class Meta(torch.Tensor):
    pass


x = torch.ones(3).as_subclass(Meta)
print(overrides.has_torch_function((torch.ones(1),)), overrides.has_torch_function((x,)), overrides.is_tensor_like(x))
print(torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled())
print(torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack())
torch.manual_seed(0)
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    print(torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack())
show_end(model=model)
