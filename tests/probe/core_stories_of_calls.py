"""Trainings that both recorders tell of, for what is called, and with what."""

CALLS = {
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
    "numbers that are not finite": """
        for number in range(14):
            if number == 11:
                model.head.weight.data.fill_(float("inf"))
            step()
    """,
    "results of few bits": """
        class Few(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 4099)
            def forward(self, x, dtype, place, what):
                x = self.inner(x)
                with torch.no_grad():
                    few = x.to(dtype) if dtype.is_floating_point else (x > 0).to(dtype)
                    if what:
                        few[0, place] = float(what)
                return x, {"few": few, "whole": torch.ones(3, dtype=torch.int64)}
        few = Few()
        optimizer = torch.optim.SGD(few.parameters(), lr=0.01)
        floats = (torch.bfloat16, torch.float16, torch.float32)
        for number in range(40):
            optimizer.zero_grad()
            what = ("", "inf", "", "-inf", "", "nan", "65504", "-3e38")[number % 8]
            dtype = floats[number % 3] if what else (*floats, torch.bool, torch.int64, torch.int32)[number % 6]
            found, _ = few(torch.ones(2, 8), dtype, (0, 4098, 2000)[number % 3], what)
            found.mean().backward()
            optimizer.step()
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
    "arguments that are nearly the same": """
        class Given(nn.Module):
            def forward(self, *args, **kwargs):
                return args[0] if args else kwargs
        given, text = Given(), "x" * 80
        things = [
            1, 1.0, True, 0, 0.0, -0.0, False, None, 2**70, -1, float("inf"), float("nan"), 1j, "", "1", text,
            text + "y", "ab", "ba", "abcd", "abce", "ä", "\\ud800", b"1", [], (), [1], (1,), [1.0], [True], [[1]],
            "bbcdefgh", "abcdefgh", "abcdefghi", "bbcdefghi", "\\u0101bc", "\\u0101bd", "\\u0102b", "\\u0100\\u0262",
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
        for name in sorted(dir(torch)):
            if isinstance(getattr(torch, name), torch.dtype):
                try:
                    things.append(torch.zeros(16, dtype=torch.uint8).view(getattr(torch, name)))
                except (RuntimeError, NotImplementedError):
                    pass
        late = torch.ones(600)[5:6]
        late.untyped_storage().resize_(8)
        things.append(late)
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
                self.register_buffer("kind_negated", torch._neg_view(torch.ones(3)))
                self.register_buffer("part_negated", torch._neg_view(torch.ones(5000)))
                self.register_buffer("part_conjugate", torch.ones(5000, dtype=torch.complex64).conj())
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
    "a loss that lies in memory with another sign": """
        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(8, 1)
            def forward(self, x):
                return torch._neg_view(self.inner(x).square().mean())
        turned = Turned()
        optimizer = torch.optim.SGD(turned.parameters(), lr=0.01)
        for number in range(14):
            optimizer.zero_grad()
            turned(torch.randn(4, 8)).backward()
            optimizer.step()
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
