"""Trainings whose batches come from loaders of many kinds, for many steps, of which both recorders write the same."""

DATA = {
    "loaders that make their batches": """
        import itertools
        from torch.utils.data import (
            BatchSampler, DataLoader, Dataset, IterableDataset, Sampler, SequentialSampler, WeightedRandomSampler,
        )
        class Examples(Dataset):
            def __init__(self, size):
                self.size, self.seen = size, torch.zeros(size)
            def __len__(self):
                return self.size
            def __getitem__(self, index):
                self.seen[int(index)] += 1
                return torch.full((8,), float(index)), int(index) % 3
        class Stream(IterableDataset):
            def __iter__(self):
                return iter([(torch.full((8,), float(index)), index % 3) for index in range(24)])
        def pull(source):
            return next(source)
        class Within(Dataset):
            # Each of its examples is a batch of another loader, which is asked for from the very line.
            def __len__(self):
                return 24
            def __getitem__(self, index):
                inner = iter(DataLoader(examples, batch_size=2, shuffle=True))
                return [pull(inner) for _ in range(6)][-1][0].sum(0), index % 3
        class Own(Sampler):
            def __iter__(self):
                for index in range(0, 48, 4):
                    yield [np.int64(index), index + 1] if index % 8 else (index, index + 1)
        class Named(DataLoader):
            pass
        examples = Examples(96)
        weighted = WeightedRandomSampler(torch.rand(96), 96)
        loaders = [
            DataLoader(examples, batch_size=4, shuffle=True),
            DataLoader(examples, batch_size=4),
            DataLoader(examples, batch_size=8, sampler=weighted, drop_last=True),
            DataLoader(examples, batch_size=None, sampler=SequentialSampler(range(12))),
            DataLoader(examples, batch_size=None, shuffle=True),
            DataLoader(examples, batch_sampler=BatchSampler(SequentialSampler(range(40)), 4, False)),
            DataLoader(examples, batch_sampler=Own()),
            DataLoader(Stream(), batch_size=2),
            DataLoader(Within(), batch_size=2, shuffle=True),
            Named(examples, batch_size=3, shuffle=True),
        ]
        small = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(small.parameters(), lr=0.001)
        def learn(batch):
            x, y = batch
            optimizer.zero_grad()
            F.cross_entropy(small(x).view(-1, 3), torch.as_tensor(y).view(-1)).backward()
            optimizer.step()
        for again in range(2):
            for loader in loaders:
                for batch in loader:
                    learn(batch)
        source = iter(loaders[8])
        for _ in range(12):
            learn(pull(source))
        # One that is left in the middle, and two that take turns.
        for batch, _ in zip(loaders[0], range(7)):
            learn(batch)
        for one, other in itertools.zip_longest(loaders[0], loaders[1]):
            learn(one)
            learn(other)
        # Batches that nobody trains with, without gradients and while another one is asked for.
        with torch.no_grad():
            for batch in loaders[1]:
                small(batch[0])
        source = iter(loaders[0])
        for number in range(20):
            learn(next(source))
            if number == 9:
                source._index_sampler = BatchSampler(SequentialSampler(range(40)), 4, False)
        source = iter(loaders[0])
        for number in range(20):
            learn(next(source))
            if number == 9:
                loaders[0].sampler.replacement = True
                source._num_yielded += 2
            if number == 14:
                loaders[0].sampler.replacement = False  # unseen as long as no batch is left out
        # What is chosen for no batch.
        source._next_index()
        small.register_forward_pre_hook(lambda *_: source._next_index() and None)
        learn(next(source))
    """,
    "loaders that fail": """
        from torch.utils.data import DataLoader, Dataset
        from torch.overrides import TorchFunctionMode
        class Failing(Dataset):
            fails = False
            def __len__(self):
                return 64
            def __getitem__(self, index):
                if index == 43 and self.fails:
                    raise ValueError("no such example")
                return torch.full((8,), float(index))
        class Mode(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                return function(*args, **(kwargs or {}))
        examples = Failing()
        small = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(small.parameters(), lr=0.001)
        loader = DataLoader(examples, batch_size=2)
        def learn(x):
            optimizer.zero_grad()
            small(x).sum().backward()
            optimizer.step()
        for fails in (False, True, False, True):
            examples.fails = fails
            try:
                for x in loader:
                    learn(x)
            except ValueError:
                pass
        examples.fails = False
        def read():
            for number, x in enumerate(loader):
                if number == 11:
                    with Mode():
                        torch.func.vmap(lambda row: row * 2)(x)
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        with Mode():
            for x in loader:
                learn(x)
        source = iter(DataLoader(examples, batch_size=2, shuffle=True))
        def under(row):
            return row + next(source).sum()
        for number in range(16):
            torch.func.vmap(under)(next(source))
        def interrupted(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGUSR1, interrupted)
        class Interrupted(Failing):
            def __getitem__(self, index):
                if index % 14 == 13:
                    os.kill(os.getpid(), signal.SIGUSR1)
                return super().__getitem__(index)
        source = iter(DataLoader(Interrupted(), batch_size=2))
        for number in range(40):
            try:
                learn(next(source))
            except (KeyboardInterrupt, StopIteration):
                pass
        for x in loader:
            learn(x)
    """,
    "a model that is made after many measures": """
        from torch.utils.data import DataLoader
        (probe,) = [module for name, module in sys.modules.items() if name.endswith("probe.measures")]
        probe.LIMIT = 1000  # of what is measured in the first steps, which what comes later does not count for
        for number in range(2):
            small = nn.Linear(8, 3)
            optimizer = torch.optim.SGD(small.parameters(), lr=0.001)
            for x in DataLoader(torch.randn(1800, 8), batch_size=2, shuffle=True):
                optimizer.zero_grad()
                F.mse_loss(small(x), torch.zeros(2, 3)).backward()
                optimizer.step()
    """,
}
