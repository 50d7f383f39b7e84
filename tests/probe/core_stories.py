"""Trainings of which both recorders have to write the same, as code: what comes first in each, and the rest by name."""

PREPARED = """
import math, os, random, signal, sys, threading
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

for seed in (torch.manual_seed, random.seed, np.random.seed):
    seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.normal = nn.LayerNorm(8)
        self.hidden = nn.Linear(8, 8)
        self.memory = nn.LSTM(8, 8, batch_first=True)

    def forward(self, x, scale=1.0, *, mask=None):
        x = F.dropout(self.hidden(self.normal(x)) * scale, 0.1, self.training)
        x, _ = self.memory(x)
        return x if mask is None else x.masked_fill(mask, 0.0)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.wide = nn.Linear(8, 4099)
        self.head = nn.Linear(4099, 3)

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = block(x, 0.5 * number, mask=torch.zeros(4, 5, 8, dtype=torch.bool))
        return torch.softmax(self.head(self.wide(x[:, -1])), dim=-1), {"x": x, "sizes": [1, 2.0, None, "text"]}

model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

def step():
    optimizer.zero_grad()
    found, rest = model(torch.ones(4, 5, 8))
    F.cross_entropy(found, torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
"""
STORIES = {
    "a model of one result": """
        model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(11):
            model.train()
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(4, 8)), torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(torch.randn(4, 8))
    """,
    "long": """
        for _ in range(14):
            step()
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(torch.ones(4, 5, 8))
    """,
    "numbers that are not finite": """
        for number in range(14):
            if number == 11:
                model.head.weight.data.fill_(float("inf"))
            step()
    """,
    "norms that do not tell": """
        kinds = [torch.float32, torch.float64]
        factors = [1.0] * 9 + [0.0, 1e-30, 1e30, 1.0, math.inf, 0.5, math.nan, 0.0]
        for kind in (None, torch.float16, torch.bfloat16, torch.complex64):
            kinds += [kind] * (kind is not None)
            told = nn.ParameterList([nn.Parameter(torch.ones(5000 // len(kinds)).to(kind)) for kind in kinds])
            optimizer = torch.optim.SGD(told, lr=0.0)
            for factor in factors:
                optimizer.zero_grad(set_to_none=factor > 0.5)
                sum((one.abs() * factor).sum().float() for one in told).backward()
                if factor == 1.0:
                    nn.utils.clip_grad_norm_(told, 1.0)
                optimizer.step()
            del told, optimizer
    """,
    "two players": """
        maker = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 8), nn.BatchNorm1d(8))
        judge = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 1))
        criterion = nn.BCEWithLogitsLoss()
        first = torch.optim.Adam(maker.parameters(), lr=0.01)
        second = torch.optim.SGD(judge.parameters(), lr=0.01, momentum=0.9)
        halved = torch.optim.lr_scheduler.StepLR(second, step_size=5)
        for number in range(20):
            words = torch.randint(1 if number % 2 else 0, 20, (6,))
            judge.zero_grad()
            criterion(judge(maker(words).detach()), torch.ones(6, 1)).backward()
            torch.nn.utils.clip_grad_norm_(judge.parameters(), 0.1)
            second.step()
            halved.step()
            first.zero_grad(set_to_none=number % 3 > 0)
            for _ in range(2):
                (criterion(judge(maker(words)), torch.zeros(6, 1)) / 2).backward()
            if number % 4 == 0:
                maker[1].weight.grad.mul_(0.5)
            first.step()
            if number == 12:
                second = torch.optim.SGD(judge.parameters(), lr=0.01)
    """,
    "closures and transforms": """
        from torch.func import functional_call, grad, vmap
        small = nn.Linear(4, 2)
        unused = nn.Linear(2, 2)
        optimizer = torch.optim.LBFGS([*small.parameters(), *unused.parameters()], lr=0.1, max_iter=2)
        others = torch.optim.AdamW(small.parameters(), lr=0.01)
        averaged = {name: value.detach().clone() for name, value in small.named_parameters()}
        data = torch.randn(5, 4)
        def closure():
            optimizer.zero_grad()
            loss = F.mse_loss(small(data), torch.ones(5, 2))
            loss.backward()
            return loss
        def loss_of(values, row):
            return functional_call(small, values, row).sum()
        for number in range(16):
            optimizer.step(closure)
            others.zero_grad()
            out = small(data)
            slope = torch.autograd.grad(out.sum(), small.weight, create_graph=True)[0]
            (F.smooth_l1_loss(out, torch.ones(5, 2)) + slope.pow(2).sum()).backward()
            vmap(grad(loss_of), (None, 0))(dict(small.named_parameters()), data)
            others.step()
            with torch.no_grad():
                for name, value in small.named_parameters():
                    averaged[name].lerp_(value, 0.1)
            if number == 11:
                try:
                    others.step(lambda: 1 / 0)
                except ZeroDivisionError:
                    pass
    """,
    "rollouts": """
        actor = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(actor.parameters(), lr=0.01)
        def play(x):
            with torch.no_grad():
                return actor(x)
        def look(x):
            with torch.no_grad():
                return play(x) + actor(x)
        def both(x, rounds):
            return [actor(x) for _ in range(rounds)]
        kept = {name: value.clone() for name, value in actor.state_dict().items()}
        for number in range(44):
            for _ in range(9):  # behind some hundred results nothing is looked at any more
                play(torch.randn(4, 8))
            # A line that is known with gradients is one to look around when it comes without.
            with torch.set_grad_enabled(number < 35):
                both(torch.randn(4, 8), 2)
            if number == 36:
                actor[0].weight.data.fill_(0.5)
                play(torch.randn(4, 8))
            if number > 36:
                with torch.inference_mode():
                    actor(torch.randn(4, 8))
            if number == 38:
                look(torch.randn(4, 8))
                actor.load_state_dict(kept)
                look(torch.randn(4, 8))
            if number == 40:
                actor.eval()
                play(torch.full((4, 8), math.inf))
                actor.train()
            if number == 41:
                try:
                    play(torch.randn(4, 7))
                except RuntimeError:
                    pass
            if number == 42:
                actor[2] = nn.Linear(6, 3)
                play(torch.randn(4, 8))
            optimizer.zero_grad()
            F.cross_entropy(actor(play(torch.randn(4, 8))[:, :1].expand(4, 8)), torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
    """,
    "objects": """
        import collections
        class Told:
            def __init__(self, **given):
                self.__dict__.update(given)
        class Slotted:
            __slots__ = ("x",)
        class Named(type):
            def __eq__(self, other):
                return True
            def __hash__(self):
                return 1
        class Odd(metaclass=Named):
            pass
        class Count(int):
            pass
        class Marked(torch.Tensor):
            pass
        class Wordy(Told, str):
            pass
        kinds = [
            lambda x: torch.distributions.Categorical(logits=x),
            lambda x: (torch.distributions.Normal(x, 1.0), x.mean()),
            lambda x: Told(x=x, long=list(range(40)), **{"y" * 100: x[0], "many": Told(x=x)}),
            lambda x: Told(**{f"x{place}": x for place in range(20)}),
            lambda x: {"held": Told(), "x": x},
            lambda x: collections.UserDict(x=x / 0),
            lambda x: [Slotted(), Odd(), Count(3), Told, type(x), x],
            lambda x: Told(x=x.detach().as_subclass(Marked)),
            lambda x: Wordy(),
            lambda x: Odd(),
        ]
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 3)
                self.shown = nn.Identity()
            def forward(self, x, kind, beside=None):
                return self.shown(kinds[kind](self.inner(x)))
        several = Model()
        optimizer = torch.optim.SGD(several.parameters(), lr=0.01)
        for number in range(30):
            several(torch.ones(4, 8), number % len(kinds), kinds[(number + 3) % len(kinds)](torch.ones(3)))
            optimizer.zero_grad()
            several(torch.ones(4, 8), 1)[1].backward()
            optimizer.step()
    """,
    "two that train": """
        kept = []  # no other tensor gets the address of one of theirs
        def train(rate):
            mine = nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))
            kept.append(mine)
            optimizer = torch.optim.SGD(mine.parameters(), lr=rate)
            for _ in range(6):
                optimizer.zero_grad()
                F.l1_loss(mine(torch.ones(3, 8)), torch.ones(3, 2)).backward()
                optimizer.step()
        for number in range(12):
            step()
            if number % 4 == 3:
                thread = threading.Thread(target=train, args=(0.1,))
                thread.start()
                thread.join()
    """,
    "one step in four": """
        small = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        frozen = nn.Linear(3, 3).requires_grad_(False)
        optimizer = torch.optim.SGD([*small.parameters(), *frozen.parameters()], lr=0.01, momentum=0.9)
        for number in range(60):
            optimizer.zero_grad()
            F.cross_entropy(frozen(small(torch.randn(4, 8))), torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
            if number == 30:
                small.eval()
                with torch.no_grad():
                    small(torch.randn(4, 8))
                small.train()
            if number == 40:
                small[0].weight.data.fill_(0.0)
            if number > 48:
                small.train()
            if number == 53:
                small[1].training = False  # which `train` of the whole will change, and of no other
    """,
    "modes": """
        class Frozen(nn.Sequential):
            def train(self, mode=True):
                super().train(mode)
                self[1].eval()
                return self
        class Refusing(nn.Module):
            refuses = False
            def train(self, mode=True):
                if self.refuses:
                    raise ValueError("not now")
                F.relu(torch.ones(2))
                return super().train(mode)
        class Waiting(nn.Module):
            def train(self, mode=True):
                thread = threading.Thread(target=model.train, args=(not mode,))
                thread.start()
                thread.join()
                return super().train(mode)
        class Switching(nn.Module):
            def forward(self, x):
                self.train(not self.training)
                return x
        frozen = Frozen(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 3)))
        refusing, waiting = Refusing(), nn.Sequential(nn.Linear(2, 2), Waiting(), nn.Linear(2, 2))
        switching = nn.Sequential(Switching(), nn.Linear(3, 3))
        whole = nn.ModuleList([nn.ModuleList([nn.ReLU(), refusing]), frozen, model])
        for number in range(14):
            whole.train()
            frozen.train()
            step()
            F.cross_entropy(switching(frozen(torch.randn(4, 8))), torch.tensor([0, 1, 2, 0])).backward()
            refusing.refuses = number % 3 == 2
            try:
                whole.train(False)
            except ValueError:
                pass
            refusing.refuses = False
            frozen.train(False).train(mode=True)
            whole[0].eval()
            try:
                model.train("no mode")
            except ValueError:
                pass
            waiting.train(number % 2 == 0)
    """,
    "mixed precision": """
        for _ in range(11):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(torch.ones(4, 5, 8))[0].sum()
            loss.backward()
            optimizer.step()
        with torch.device("cpu"), torch.inference_mode():
            model(torch.ones(4, 5, 8))
    """,
    "two precisions": """
        for number in range(16):
            with torch.autocast("cpu", torch.float16 if number % 3 == 2 else torch.bfloat16, enabled=number % 5 > 0):
                F.linear(torch.ones(2, 3), torch.ones(4, 3))
            step()
    """,
    "arguments that are nearly the same": """
        class Given(nn.Module):
            def forward(self, *args, **kwargs):
                return args[0] if args else kwargs
        given, text = Given(), "x" * 80
        things = [
            1, 1.0, True, 0, 0.0, -0.0, False, None, 2**70, -1, float("inf"), float("nan"), 1j, "", "1", text,
            text + "y", "ab", "ba", "abcd", "abce", "ä", "\\ud800", b"1", [], (), [1], (1,), [1.0], [True], [[1]],
            [[1, [2]]], [[1, [3]]], [(1,)],
            list(range(16)), list(range(17)), list(range(16, 0, -1)), {"a": 1}, {1}, range(3), torch.float32,
            torch.float64, torch.strided, torch.contiguous_format, torch.device("cpu"), torch.device("meta"),
            torch.Size([1]), torch.Size([1, 2]), torch.ones(1), torch.ones(1, 1), torch.ones(()), torch.ones(2, 0),
            torch.ones(1, dtype=torch.float64), torch.ones(1, requires_grad=True), torch.ones(1, dtype=torch.bool),
            torch.ones(3, 2).t(), torch.ones(3, 2, device="meta"), torch.ones(2).to_sparse(),
            nn.Parameter(torch.ones(1)), torch.ones(2, dtype=torch.complex64).conj(),
            torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
        ]
        for number in range(14):
            step()
            for thing in things:
                given(thing)
                given([thing])
                given(first=thing)
                given(second=thing)
                given(thing, thing)
            given()
    """,
    "a torch that tells each attribute by itself": """
        import sys
        for name, module in list(sys.modules.items()):
            if name.endswith("core._core"):
                assert not module.use_exchange(False)
        small = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)).to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01)
        for number in range(16):
            step()
            optimizer.zero_grad()
            F.cross_entropy(small(torch.randn(4, 8)), torch.tensor([0, 1, 2, 0])).backward()
            optimizer.step()
            if number == 12:
                small[0].weight.data = torch.ones(8, 6).t()
            if number == 14:
                small[2].bias.data.fill_(0.0)
    """,
    "blocks of all kinds": """
        class Held(nn.Module):
            def __init__(self):
                super().__init__()
                self.used = nn.Parameter(torch.ones(3))
                kinds = "float64 float16 bfloat16 int64 uint8 bool complex64"
                for number, kind in enumerate(getattr(torch, kind) for kind in kinds.split()):
                    self.register_buffer(f"kind{number}", torch.ones(number + 1, 5).to(kind))
                    self.register_buffer(f"part{number}", torch.ones(4000).to(kind)[3:])
                    self.register_buffer(f"turned{number}", torch.ones(3, 2).to(kind).t())
                self.register_buffer("empty", torch.ones(0, 3))
                self.register_buffer("sparse", torch.ones(3).to_sparse())
                self.register_buffer("negated", torch.ones(3, dtype=torch.complex64).conj().imag)
                self.register_buffer("conjugate", torch.ones(5000, dtype=torch.complex64).conj())
                self.register_buffer("quantized", torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
                self.register_buffer("shrunk", torch.ones(600))
            def forward(self, x):
                for name, buffer in self.named_buffers():
                    if name.startswith(("kind", "part", "turned")):
                        buffer.logical_not_() if buffer.dtype is torch.bool else buffer.add_(1)
                return x * self.used
        held = Held()
        optimizer = torch.optim.SGD(held.parameters(), lr=0.01)
        for number in range(14):
            optimizer.zero_grad()
            F.mse_loss(held(torch.ones(3)), torch.ones(3)).backward()
            optimizer.step()
            if number == 10:
                held.shrunk.untyped_storage().resize_(8)
    """,
    "exceptions": """
        for number in range(12):
            step()
            try:
                model(torch.ones(4, 5, 7 + number))
            except RuntimeError:
                pass
            try:
                F.linear("no tensor", None)
            except TypeError:
                pass
            torch.matmul(torch.ones(number, 2), other=torch.ones(2, 3))
            torch.max(torch.ones(number + 1, 2), dim=1)
    """,
    "threads": """
        def work():
            for _ in range(3):
                model(torch.ones(4, 5, 8))
        for _ in range(10):
            step()
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    """,
    "signals": """
        class Enough(Exception):
            pass
        def handler(number, frame):
            F.linear(torch.ones(2, 3), torch.ones(4, 3))
            if number == signal.SIGUSR2:
                raise Enough
        signal.signal(signal.SIGUSR1, handler)
        signal.signal(signal.SIGUSR2, handler)
        class Signalling(nn.Module):
            def forward(self, x, number):
                signal.raise_signal(number)
                return F.relu(x)
        model.blocks[0].signalling = Signalling()
        for _ in range(10):
            step()
            model.blocks[0].signalling(torch.ones(3), signal.SIGUSR1)
            try:
                model.blocks[0].signalling(torch.ones(3), signal.SIGUSR2)
            except Enough:
                pass
    """,
    "a rate that moves in every step": """
        class Told(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.shape = nn.Linear(8, 3), (4, 8)
            def forward(self, ids, *, mask=None, labels=None, sizes=()):
                found = self.inner(ids * mask).sum() * 0.5
                return found if labels is None else found - self.inner(labels["more"][0]).sum()
        told, guide = Told(), nn.Linear(8, 8)
        optimizer = torch.optim.SGD([{"params": told.parameters()}, {"params": guide.parameters(), "lr": 0.5}], lr=0.01)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, [lambda done: 1 / (1 + done), lambda done: 1.0])
        for number in range(135):
            given = {"mask": torch.rand(4, 8), "sizes": (number, "few")}
            if number % 4 == 1:
                given["labels"] = {"more": [torch.rand(4, 8)]}
            optimizer.zero_grad()
            with torch.no_grad():
                guided = guide(torch.randn(4, 8))
            told(guided, **given).backward()
            if number % 5 == 0:
                nn.utils.clip_grad_norm_(told.parameters(), 0.1)
            if number % 4 == 2:
                optimizer.param_groups[1]["lr"] = 1 / (2 + number)
            optimizer.step(None) if number % 3 else optimizer.step()
            schedule.step()
        tensor_rate = torch.optim.Adam(guide.parameters(), lr=torch.tensor(0.1))
        for number in range(3):
            guide(torch.ones(2, 8)).sum().backward()
            tensor_rate.param_groups[0]["lr"].mul_(0.5)
            tensor_rate.step()
    """,
    "a closure that does everything": """
        from functools import partial
        class Output(dict):
            def items(self):
                raise RuntimeError("nobody asks")
        class Meta(type):
            def __hash__(cls):
                return 1
        class Odd(dict, metaclass=Meta):
            pass
        class Telling(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner, self.acts = nn.Linear(8, 3), nn.ReLU()
            def forward(self, batch, act, *, then=None, deep=None):
                found = act(self.inner(batch["x"]))
                return Output(found=found, loss=found.sum(), more={"x" * 90: [found], 3: 1} if then else None)
        class Strategy(nn.Module):
            def forward(self, *given, **named):
                return told(*given, **named)
        told, strategy = Telling(), Strategy()
        optimizer = torch.optim.SGD(told.parameters(), lr=0.01)
        class Bare:
            def __call__(self):
                return everything(1)
        def everything(number, scale=1.0):
            nested = {"x": torch.randn(4, 8), "meta": {"a": {"b": Odd(c=1)}}}
            nested["many"] = dict.fromkeys(map(str, range(20)))
            if number % 5 == 4:
                nested["x"][0, 0] = float("inf")
            kinds = [told.acts, F.relu, torch.sigmoid, torch.Tensor.tanh, lambda x: x]
            then = [partial(F.relu), len, [].append][number % 3]
            loss = strategy(nested, kinds[number % 5], then=then, deep=Odd())["loss"]
            optimizer.zero_grad()
            F.softmax(torch.ones(3), 0)
            if number in (20, 29):
                raise ValueError
            (loss * scale).backward()
            return loss
        noted = partial(everything, 3, scale=0.5)
        noted.by = torch.ones(2)
        for number in range(40):
            for size in range(4):
                told(dict(x=torch.full((2, 8), math.inf if number % 6 == size else 1.0)), torch.relu)
            try:
                if number % 4 == 0:
                    optimizer.step(partial(everything, number))
                elif number % 4 == 1:
                    optimizer.step(closure=partial(everything, number, scale=0.1))
                elif number % 4 == 2:
                    optimizer.step(closure=lambda: everything(number))
                else:
                    optimizer.step(Bare() if number % 8 == 3 else noted)
            except ValueError:
                pass
    """,
    "interruptions while training is followed": """
        following = next(module for name, module in sys.modules.items() if name.endswith("probe.following")).Following
        class Interrupted(BaseException):
            pass
        def interrupted(name, method):
            def instead(*args):
                if armed == name:
                    raise Interrupted
                return method(*args)
            setattr(following, name, instead)
        armed = ""
        for name in ("given", "loss", "look"):
            interrupted(name, getattr(following, name))
        for number in range(40):
            armed = ("", "given", "", "loss", "look")[number % 5] if number > 12 else ""
            optimizer.zero_grad()
            try:
                loss = model(torch.ones(4, 5, 8))[0].sum()
                loss.backward()
                optimizer.step()
            except Interrupted:
                assert armed
                continue
            assert not armed or os.environ["TRAINCHECK_NOT_NEEDED"]  # in check mode nothing is followed
    """,
    "what changes late": """
        class Empty(nn.Module):
            def forward(self, x):
                return x
        small = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3))
        empty = Empty()
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01, momentum=0.9)
        def changed(number):
            if number == 11:
                optimizer.param_groups[0]["params"].reverse()
            elif number == 12:
                optimizer.param_groups[0]["momentum"] = 0.5
            elif number == 13:
                optimizer.param_groups[0]["betas"] = [0.9, 0.99]
            elif number == 14:
                optimizer.param_groups[0]["betas"][0] = 0.8
            elif number == 15:
                optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))], "lr": 0.1})
            elif number == 16:
                small.append(nn.Linear(3, 3))
                optimizer.add_param_group({"params": small[2].parameters()})
            elif number == 17:
                small[0].weight = nn.Parameter(torch.ones(6, 8))
            elif number == 18:
                del optimizer.param_groups[1], small[2]
            elif number == 19:
                empty.weight = nn.Parameter(torch.ones(2))
            elif number == 20:
                small[0].weight.grad = torch.ones(6, 8)
            elif number == 21:
                small[1].bias.data.add_(1)
            elif number == 22:
                small[0].requires_grad_(False)
            elif number == 24:
                small[0].register_buffer("mask", torch.ones(2))
        for number in range(28):
            optimizer.zero_grad(set_to_none=number % 2 == 0)
            changed(number)
            F.mse_loss(empty(small(torch.randn(4, 8))), torch.ones(4, 3)).backward()
            optimizer.step()
    """,
    "what changes right before a step": """
        small = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01, momentum=0.9)
        def changed(number):
            if number == 11:
                optimizer.param_groups[0]["lr"] = 0.02
            elif number == 14:
                small[1].weight.grad.mul_(2)
            elif number == 17:
                small[0].bias.data.add_(1)
            elif number == 20:
                small[1].register_buffer("mask", torch.ones(2))
            elif number == 23:
                small[0].weight.requires_grad_(False)
            elif number == 26:
                optimizer.param_groups[0]["momentum"] = 0.5
        for number in range(29):
            optimizer.zero_grad()
            F.mse_loss(small(torch.randn(4, 8)), torch.ones(4, 3)).backward()
            changed(number)
            optimizer.step()
    """,
    "fork": """
        for _ in range(9):
            step()
        child = os.fork()
        random.seed(1)
        for _ in range(10):
            step()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    """,
    "a file that grows": """
        for _ in range(600):
            for _ in range(15):
                F.softmax(F.linear(torch.ones(2, 3), torch.ones(4, 3)), dim=1)
        step()
    """,
}
