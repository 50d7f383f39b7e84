"""Trainings that both recorders tell of, for what comes before, between and behind the steps of an optimizer."""

PARTS = {
    "clipping of all kinds": """
        from torch.nn.utils import clip_grad_norm_, clip_grad_value_
        small = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01)
        frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        def clip(number):
            everything = [*small.parameters(), frozen]
            if number % 8 == 0:
                clip_grad_norm_(small.parameters(), 1.0)
            elif number % 8 == 1:
                clip_grad_norm_(list(small.parameters()), max_norm=0.1, foreach=False)
            elif number % 8 == 2:
                clip_grad_norm_(filter(lambda one: one.requires_grad, everything), 0.1, norm_type=1.0)
            elif number % 8 == 3:
                clip_grad_value_(small.parameters(), clip_value=0.01)
            elif number % 8 == 4:
                total = nn.utils.get_total_norm([one.grad for one in small.parameters()])
                nn.utils.clip_grads_with_norm_(small.parameters(), 0.1, total)
            elif number % 8 == 5:
                clip_grad_norm_(parameters=(one for one in small.parameters()), max_norm=1.0)
            elif number % 8 == 6:
                clip_grad_norm_(small[0].weight, 0.5)
            else:
                small[0].bias.grad[0] = math.inf
                try:
                    clip_grad_norm_(small.parameters(), 1.0, error_if_nonfinite=True)
                except RuntimeError:
                    small[0].bias.grad[0] = 0.0
        def closure():
            optimizer.zero_grad()
            loss = small(torch.ones(2, 8)).sum()
            loss.backward()
            clip(number)
            return loss
        for number in range(34):
            if number % 3:
                closure()
                optimizer.step()
            else:
                optimizer.step(closure)
    """,
    "modes before every step": """
        class Frozen(nn.Module):
            def __init__(self):
                super().__init__()
                self.normal = nn.BatchNorm1d(8)
                self.head = nn.Linear(8, 3)
            def train(self, mode=True):
                super().train(mode)
                self.normal.eval()
                return self
            def forward(self, x, switch):
                if switch:
                    self.head.train()
                return self.head(self.normal(x))
        frozen, other = Frozen(), nn.Linear(3, 1)
        optimizer = torch.optim.SGD([*frozen.parameters(), *other.parameters()], lr=0.01)
        for number in range(30):
            frozen.train()
            other.train(mode=number % 5 > 0)
            if number % 4 == 3:
                nn.Dropout(0.1).train(False)
            optimizer.zero_grad()
            other(frozen(torch.randn(4, 8), number % 3 == 0)).sum().backward()
            optimizer.step()
            if number % 7 == 6:
                frozen.eval()
                with torch.no_grad():
                    frozen(torch.randn(4, 8), False)
                    frozen.head.weight.data.numpy()[0, 0] += 1.0  # an exchange that leaves no other mark
                    frozen.eval()
                    frozen(torch.randn(4, 8), False)
            if number == 20:
                frozen.added = nn.Linear(2, 2)
    """,
    "schedules": """
        class Warm(torch.optim.lr_scheduler.LambdaLR):
            def __init__(self, optimizer):
                super().__init__(optimizer, lambda number: min(1.0, number / 12))
        class Own(torch.optim.lr_scheduler.LRScheduler):
            def get_lr(self):
                return [group["lr"] for group in self.optimizer.param_groups]
            def step(self, epoch=None):
                super().step(epoch)
            def again(self, epoch=None):
                self.step(epoch)
            def _initial_step(self):
                self._step_count, self._is_initial = 0, True
                self.again()
                self._is_initial = False
        class Alien:
            def __init__(self, optimizer):
                self.optimizer = optimizer
            def step(self):
                for group in self.optimizer.param_groups:
                    group["lr"] *= 0.9
        schedules = torch.optim.lr_scheduler
        told = nn.Linear(8, 3)
        groups = [{"params": [told.weight]}, {"params": [told.bias], "lr": 0.5}]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        each = [
            Warm(optimizer),
            schedules.StepLR(optimizer, 5),
            Own(optimizer),
            schedules.SequentialLR(
                optimizer, [schedules.ConstantLR(optimizer), schedules.ExponentialLR(optimizer, 0.9)], [14]
            ),
            schedules.ChainedScheduler([schedules.StepLR(optimizer, 9), schedules.MultiStepLR(optimizer, [3, 20])]),
            schedules.ReduceLROnPlateau(optimizer, patience=2),
            Alien(optimizer),
        ]
        for number in range(36):
            optimizer.zero_grad()
            loss = told(torch.ones(4, 8)).square().mean()
            loss.backward()
            optimizer.step()
            for place, schedule in enumerate(each):
                if number % (place + 1) == 0:
                    step = schedule.again if place == 2 else schedule.step
                    step(*([loss.item()] if place == 5 else [number] if place == 2 and number > 30 else []))
            if number == 25:
                each += [schedules.CosineAnnealingLR(optimizer, 10)]
                Own(optimizer)  # from the very line that has stepped, and no step itself
    """,
    "parts that are told by name": """
        told = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))
        optimizer = torch.optim.AdamW(told.parameters(), lr=0.01)
        f, wanted = nn.functional, torch.tensor([0, 2, 1, -100])
        for number in range(40):
            optimizer.zero_grad(set_to_none=number % 3 > 0)
            made = told(torch.randn(4, 8))
            if number % 2:
                loss = f.cross_entropy(made, wanted, label_smoothing=0.1)
            else:
                loss = f.cross_entropy(target=wanted, input=made) + f.mse_loss(made, target=torch.ones(4, 3))
            if number % 5 == 4:
                loss.backward(retain_graph=True)
                told.zero_grad(set_to_none=True)
            if number % 4 == 3:
                torch.autograd.backward(tensors=loss)
            else:
                torch.autograd.backward(loss, create_graph=False)
            nn.utils.clip_grad_norm_(told.parameters(), max_norm=1.0)
            told.train(mode=number != 20)
            optimizer.step(closure=None)
    """,
    "gradients whose norms are found in two ways": """
        class Waves(nn.Module):
            def __init__(self):
                super().__init__()
                self.near, self.other = nn.Linear(64, 64), nn.Parameter(torch.randn(64, 64, dtype=torch.complex64))
            def forward(self, x):
                return (self.near(x).to(torch.complex64) @ self.other).abs().square().sum()
        waves = Waves()
        parameters = [*waves.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=1e-4)
        for number in range(40):
            optimizer.zero_grad()
            waves(torch.randn(16, 64)).backward()
            if number % 2:
                nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
    """,
    "gradients that lie elsewhere once their norms are found": """
        class Waves(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(64, 64, dtype=torch.complex64))
            def forward(self, x):
                return (x.to(torch.complex64) @ self.weight).abs().square().sum()
        waves = Waves()
        optimizer = torch.optim.SGD(waves.parameters(), lr=1e-4)
        left = []
        def norms(tensors, ord=2, dtype=None):
            # As another thread may do while torch works.
            gradient = waves.weight.grad
            left.append(gradient.data)
            gradient.data = gradient.data * 2
            return [each.abs().square().sum().sqrt() for each in tensors]
        library = torch.library.Library("aten", "IMPL")
        library.impl("_foreach_norm.Scalar", norms, "CPU")
        for number in range(40):
            optimizer.zero_grad()
            waves(torch.randn(16, 64)).backward()
            optimizer.step()
    """,
    "rates that are moved by hand": """
        import numpy
        told, other = nn.Linear(8, 3), nn.Linear(8, 3)
        optimizer = torch.optim.SGD([{"params": [told.weight]}, {"params": [told.bias], "lr": 0.5}], lr=0.1)
        second = torch.optim.Adam(other.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(second, T_max=30)
        rates = [0.1, 0.2, float("0.2"), 1, 0, 0.0, -0.0, float("nan"), float("nan"), numpy.float64(0.3), True]
        def closure():
            optimizer.param_groups[0]["lr"] *= 0.5  # within the step
            return told(torch.ones(4, 8)).square().mean()
        for number in range(44):
            for each, used in ((told, optimizer), (other, second)):
                used.zero_grad()
                each(torch.ones(4, 8)).square().mean().backward()
            optimizer.param_groups[number % 2]["lr"] = rates[number % len(rates)]
            optimizer.step(closure) if number % 7 == 6 else optimizer.step()
            second.step()
            schedule.step()
            if number == 30:
                optimizer.add_param_group({"params": [nn.Parameter(torch.ones(3))], "lr": 0.7})
            if number == 33:
                second.param_groups[0]["lr"] = torch.tensor(0.25)
            if number == 36:
                second.param_groups[0]["lr"] = 0.25
    """,
    "batches of all kinds": """
        from torch.utils.data import DataLoader, Dataset
        from dataclasses import dataclass
        @dataclass
        class Kept:
            x: torch.Tensor
            name: str
        class Examples(Dataset):
            def __init__(self, kind):
                self.kind = kind
            def __len__(self):
                return 48
            def __getitem__(self, index):
                x = torch.full((8,), float(index))
                return {
                    "named": {"x": x, "inner": {"n": index}},
                    "texts": {"x": x, "text": f"text {index}"},
                    "strange": {"x": x, "name of \u00e9": index},
                    "plain": x,
                }.get(self.kind, (x, index))
        def turned(found):
            whole = torch.stack([one for one, _ in found])
            conjugated = torch.view_as_complex(whole.view(-1, 4, 2)).conj()
            return [whole.t().contiguous().t(), whole.to_sparse(), torch.zeros(0), {}, conjugated]
        collate = {
            "turned": turned,
            "kept": lambda found: Kept(torch.stack([one for one, _ in found]), "kept"),
        }
        small = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01)
        find = {
            "kept": lambda batch: batch.x,
            "plain": lambda batch: batch,
            "pair": lambda batch: batch[0],
            "turned": lambda batch: batch[0],
        }
        for kind in ("pair", "named", "texts", "strange", "plain", "kept", "turned"):
            loader = DataLoader(Examples(kind), batch_size=12, shuffle=kind != "pair", collate_fn=collate.get(kind))
            for batch in loader:
                x = find[kind](batch) if kind in find else batch["x"]
                optimizer.zero_grad()
                small(x).sum().backward()
                optimizer.step()
    """,
    "zeros in front": """
        # Of a gradient whose first numbers are zeros it is only found by reading on whether all are.
        kinds = (torch.float32, torch.float64, torch.float16)
        rows = [nn.Parameter(torch.ones(size, dtype=kind)) for size in (15, 300, 5000, 70001) for kind in kinds]
        optimizer = torch.optim.SGD(rows, lr=0.001)
        for number in range(26):
            optimizer.zero_grad(set_to_none=number % 2 == 0)
            loss = 0.0
            for one in rows:
                factor = torch.zeros(len(one), dtype=one.dtype)
                if number % 3 == 1:
                    factor[-1] = 1.0
                elif number % 3 == 2:
                    factor = -factor
                    factor[(number * 977) % len(one)] = 1e-7
                loss = loss + (one * factor).sum().double()
            loss.backward()
            optimizer.step()
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
}
