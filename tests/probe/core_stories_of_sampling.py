"""Programs of which one step in four is observed, with what comes while the probe sleeps and when it wakes."""

SAMPLED = {
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
    "one step in four of two players": """
        maker = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 16))
        maker.append(nn.Linear(16, 30, bias=False))
        maker[4].weight = maker[0].weight
        judge = nn.Sequential(nn.Linear(30, 16), nn.Dropout(0.1), nn.Linear(16, 1))
        criterion = nn.BCEWithLogitsLoss()
        first = torch.optim.Adam(maker.parameters(), lr=0.01)
        second = torch.optim.SGD(judge.parameters(), lr=0.01, momentum=0.9)
        decayed = torch.optim.lr_scheduler.ExponentialLR(first, 0.97)
        halved = torch.optim.lr_scheduler.StepLR(second, step_size=17)
        for number in range(64):
            words = torch.randint(0, 20, (6,))
            judge.zero_grad()
            criterion(judge(maker(words).detach()), torch.ones(6, 1)).backward()
            torch.nn.utils.clip_grad_norm_(judge.parameters(), 0.1)
            for _ in range(3 if number > 35 else 1):
                second.step()
            halved.step()
            first.zero_grad(set_to_none=number % 3 > 0)
            criterion(judge(maker(words)), torch.zeros(6, 1)).backward()
            first.step()
            if number > 30:
                decayed.step()
            if number == 50:
                for _ in range(120):
                    second.step()  # the other one has come to its end
    """,
    "one step in four of what a loader makes": """
        from torch.utils.data import DataLoader, RandomSampler
        small = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
        optimizer = torch.optim.SGD(small.parameters(), lr=0.01)
        sampler = RandomSampler(range(120))
        for done, x in enumerate(DataLoader(torch.randn(120, 8), batch_size=2, sampler=sampler)):
            optimizer.zero_grad()
            small(x).sum().backward()
            optimizer.step()
            sampler.replacement = not sampler.replacement
            if done % 13 == 12:
                small.eval()
                with torch.no_grad():
                    small(x)
                small.train()
    """,
    "one step in four of what no module holds": """
        lonely = nn.Parameter(torch.ones(3, 5).t())
        small = nn.Linear(3, 4)
        small.register_buffer("seen", torch.zeros(2, dtype=torch.int64))
        small.register_buffer("halved", torch.ones(3, dtype=torch.float16))
        small.register_buffer("both", torch.ones(2, dtype=torch.complex64))
        average = torch.optim.swa_utils.AveragedModel(small)
        shadow = {name: value.detach().clone() for name, value in small.named_parameters()}
        optimizer = torch.optim.SGD(small.parameters(), lr=torch.tensor(0.01), momentum=0.9)
        optimizer.add_param_group({"params": [lonely], "lr": 0.02})
        for number in range(60):
            optimizer.zero_grad()
            loss = small(torch.randn(4, 5) @ lonely).sum()
            loss.backward()
            optimizer.step()
            small.seen += 1
            average.update_parameters(small)
            for name, value in small.named_parameters():
                shadow[name] = shadow[name] * 0.9 + value.detach() * 0.1
            if number == 40:
                optimizer.param_groups[0]["lr"] = 0.03
            if number == 45:
                optimizer.param_groups[1]["lr"] = 1
    """,
    "one step in four of what is exchanged": """
        small = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 6), nn.Linear(6, 3))
        optimizer = torch.optim.AdamW(small.parameters(), lr=0.01)
        def trained():
            F.cross_entropy(small(torch.randn(4, 8)), torch.tensor([0, 1, 2, 0])).backward()
        for number in range(80):
            optimizer.zero_grad()
            trained()
            if number in (21, 27):
                small[0].weight.grad[0, 0] = float("nan") if number == 21 else float("inf")
            if number == 27:
                small[2].bias.requires_grad_(False)
            if number == 33:
                small[1].weight = nn.Parameter(small[1].weight.detach().clone())
            if number == 37:
                small.append(nn.Linear(3, 3))
                optimizer.add_param_group({"params": small[3].parameters()})
            if number == 43:
                small[0].weight.grad = None
            if number == 47:
                beside = threading.Thread(target=trained)
                beside.start()
                beside.join()
            if number == 55:
                small[2].weight.data = small[2].weight.data.t().contiguous().t()
            if number == 59:
                torch.nn.utils.clip_grad_norm_(small.parameters(), 0.1)
            if number == 62:
                optimizer.step(lambda: small(torch.randn(4, 8)).sum())
            if number == 65:
                optimizer.load_state_dict(optimizer.state_dict())
            optimizer.step()
    """,
}
