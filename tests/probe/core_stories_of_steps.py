"""Trainings that both recorders tell of, for what their steps do."""

STEPS = {
    "long": """
        for _ in range(14):
            step()
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(torch.ones(4, 5, 8))
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
    "parameters replaced under their names": """
        small = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
        small[1].weight = small[0].weight
        optimizer = torch.optim.SGD(small.parameters(), lr=0.1, momentum=0.9)
        for number in range(16):
            if number in (4, 11):
                small[1].weight = nn.Parameter(small[1].weight.detach().clone())
            if number == 6:
                small[0].bias = nn.Parameter(small[0].bias.detach().clone())
                optimizer.param_groups[0]["params"][1] = small[0].bias
            if number == 8:
                small[1].weight = small[0].weight
            if number % 5 == 4:
                own = small[2].weight
                small[2].weight = nn.Parameter(torch.ones(4))
                small(torch.ones(3, 4))
                small[2].weight = own
                torch.func.functional_call(small, {"0.bias": nn.Parameter(torch.ones(4))}, torch.ones(3, 4))
            optimizer.zero_grad()
            small(torch.randn(3, 4)).sum().backward()
            optimizer.step()
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
        class Named(nn.Module):
            def __init__(self):
                super().__init__()
                self.model = model
            def forward(self, name, x):
                return self.model(x)[0]
        named = Named()
        # A text, a loss of few bits and Python's own generator are what the compiled core does not follow by itself.
        for number in range(40):
            armed = ("", "given", "", "loss", "look")[number % 5] if number > 12 else ""
            optimizer.zero_grad()
            random.random()
            try:
                loss = named("row", torch.ones(4, 5, 8)).sum().bfloat16()
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
    "what is followed": """
        class Fed(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(4, 2)
            def forward(self, given, **named):
                return self.inner(rows)
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return 2 * x
            @staticmethod
            def backward(ctx, slope):
                return 2 * slope
        class Marked(torch.Tensor):
            pass
        net = Fed()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
        rows, target = torch.randn(6, 4), torch.ones(6, 2)
        deep = rows
        for _ in range(8):
            deep = [deep]
        given = [
            rows, rows[1:], rows.t(), rows[:0], rows.half(), rows.double(), rows.int(), rows.expand(2, 6, 4),
            rows.to_sparse(), (rows, target), [rows, None, 3, -2.5, True], {"rows": rows, "name": "a"}, "a text", deep,
            10**5000, b"bytes", nn.Parameter(rows), rows.as_subclass(Marked), torch.randn(20, 30)[3:].conj(),
            torch.randn(2, dtype=torch.cfloat).conj(), np.ones(3), net.inner.weight.detach(), float("nan"),
            torch.zeros(()), (),
        ]
        losses = [
            lambda a, b: a,
            lambda a, b: a + b,
            lambda a, b: a - 2 * b,
            lambda a, b: a / 4,
            lambda a, b: torch.stack([a, b]).sum(),
            lambda a, b: Double.apply(a),
            lambda a, b: a.double(),
            lambda a, b: a.bfloat16(),
            lambda a, b: a[None],
            lambda a, b: -a,
            lambda a, b: torch.add(a, b, alpha=0.5),
            lambda a, b: (a * b).sqrt(),
            lambda a, b: torch.cat([a[None], b[None]]).mean(),
        ]
        for number in range(140):
            optimizer.zero_grad()
            out = net(given[number % len(given)], word=number)
            loss = losses[number % len(losses)](F.mse_loss(out, target), F.l1_loss(out, target))
            if number % 9:
                loss.backward()
            else:
                torch.autograd.backward([loss])
            if number > 20:
                torch.rand(1)
            if number > 60:
                random.random()
            if number > 100:
                np.random.rand()
            optimizer.step()
    """,
    "attributes that change": """
        small = nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.1), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01)
        def changed(number):
            if number == 10:
                small.rate = 0.5
            elif number == 12:
                small.rate = 0.25
            elif number == 14:
                small[1].p = 0.2
            elif number == 16:
                del small.rate
                small.other = 1
            elif number == 18:
                small.append(nn.Linear(3, 3))
                small[3].note = "new"
            elif number == 20:
                del small[3]
            elif number == 22:
                small.sizes = (1, 2, 3)
            elif number == 24:
                whole.scale = 2.0
            elif number == 26:
                small.append(extra)  # what was told of it is told again, of another name
            elif number == 40:
                small.other = 2
        whole, extra = nn.Sequential(small), nn.Dropout(0.1)
        for number in range(44):
            changed(number)
            optimizer.zero_grad()
            F.mse_loss(whole(extra(torch.randn(4, 8))), torch.ones(4, 3)).backward()
            optimizer.step()
    """,
}
