"""What Python says of torch's functions and classes: signature, source, repr, module, qualified name, code, pickle."""

import copy
import hashlib
import inspect
import io
import pickle

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss

SUBJECTS = [
    F.linear,
    F.cross_entropy,
    F.dropout,
    F.layer_norm,
    F.embedding,
    F.mse_loss,
    F.softmax,
    F.log_softmax,
    F.gelu,
    F.scaled_dot_product_attention,
    F.conv2d,
    F.batch_norm,
    F.nll_loss,
    F.binary_cross_entropy_with_logits,
    F.kl_div,
    torch.matmul,
    torch.bmm,
    torch.einsum,
    torch.save,
    torch.load,
    torch.manual_seed,
    torch.rand,
    torch.randn,
    torch.multinomial,
    torch.Tensor.backward,
    torch.Tensor.add,
    torch.Tensor.masked_fill,
    torch.Tensor.normal_,
    torch.Tensor.uniform_,
    torch.autograd.backward,
    torch.autograd.grad,
    torch.utils.checkpoint.checkpoint,
    torch.compile,
    torch.jit.script,
    nn.Module.__call__,
    nn.Module.forward,
    nn.Module.train,
    nn.Module.eval,
    nn.Module.to,
    nn.Module.zero_grad,
    nn.Module.load_state_dict,
    nn.Module.requires_grad_,
    nn.Module.__setattr__,
    nn.Module.register_parameter,
    nn.Module.__init__,
    nn.Linear.forward,
    nn.Linear.__init__,
    nn.Parameter,
    nn.init.xavier_uniform_,
    nn.init.normal_,
    nn.init.zeros_,
    nn.utils.clip_grad_norm_,
    nn.utils.clip_grad_value_,
    torch.optim.Optimizer.zero_grad,
    torch.optim.SGD.step,
    torch.optim.SGD.__init__,
    torch.optim.Optimizer.__init__,
    torch.optim.AdamW.step,
    torch.optim.LBFGS.step,
    torch.optim.lr_scheduler.StepLR,
    torch.optim.lr_scheduler.LRScheduler.step,
    torch.optim.lr_scheduler.LRScheduler.__init__,
    torch.optim.swa_utils.AveragedModel.update_parameters,
    torch.amp.GradScaler.step,
    torch.amp.GradScaler.scale,
    torch.utils.data.DataLoader.__iter__,
    torch.utils.data.DataLoader.__init__,
    torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
    torch.distributed.all_reduce,
    torch.distributed.init_process_group,
    torch.nn.parallel.DistributedDataParallel.forward,
]


def attempt(question, subject):
    try:
        return question(subject)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def source(subject):
    return hashlib.sha256(inspect.getsource(subject).encode()).hexdigest()[:10]


def code(subject):
    found = subject.__code__
    return (
        found.co_name,
        found.co_qualname,
        found.co_filename.rpartition("site-packages")[2],
        found.co_firstlineno,
        found.co_argcount,
        found.co_kwonlyargcount,
        found.co_varnames[: found.co_argcount + found.co_kwonlyargcount],
        found.co_flags,
    )


QUESTIONS = {
    "type": type,
    "repr": repr,
    "names": lambda subject: (subject.__module__, subject.__qualname__, subject.__name__),
    "signature": inspect.signature,
    "full arguments": lambda subject: inspect.getfullargspec(subject)[:4],
    "source": source,
    "source line": lambda subject: inspect.getsourcelines(subject)[1],
    "code": code,
    "closure": lambda subject: inspect.getclosurevars(subject).nonlocals.keys(),
    "defaults": lambda subject: (subject.__defaults__, subject.__kwdefaults__),
    "annotations": lambda subject: sorted(subject.__annotations__.items(), key=lambda item: item[0]),
    "dictionary": lambda subject: sorted(vars(subject)) if not isinstance(subject, type) else len(vars(subject)),
    "wrapped": lambda subject: hasattr(subject, "__wrapped__"),
    "doc": lambda subject: hashlib.sha256(str(subject.__doc__).encode()).hexdigest()[:10],
    "kind": lambda subject: (
        inspect.isfunction(subject),
        inspect.isbuiltin(subject),
        inspect.ismethoddescriptor(subject),
    ),
    "unwrapped": lambda subject: inspect.unwrap(subject) is subject,
    "copies": lambda subject: (copy.copy(subject) is subject, copy.deepcopy(subject) is subject),
    "pickle": lambda subject: pickle.dumps(subject),
    "pickled": lambda subject: pickle.loads(pickle.dumps(subject)) is subject,
}
for subject in SUBJECTS:
    print("#", getattr(subject, "__qualname__", subject))
    for name, question in QUESTIONS.items():
        print("   ", name, attempt(question, subject))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    for subject in (model, optimizer, model[0], model[0].weight, torch.utils.data.DataLoader([1, 2])):
        print(len(repr(subject)), type(subject), sorted(vars(subject)) if hasattr(subject, "__dict__") else "")
    print({k: len(v) for k, v in vars(model).items() if hasattr(v, "__len__")})
    file = io.BytesIO()
    torch.save(model, file)
    print(len(file.getvalue()), len(pickle.dumps(model)), len(pickle.dumps(optimizer)))
    copied = copy.deepcopy(model)
    print(repr(copied) == repr(model), sorted(vars(copied)))
show_end(model=model, copied=copied)
