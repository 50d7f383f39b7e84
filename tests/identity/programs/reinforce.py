"""REINFORCE on a small walk, with distributions of torch and a baseline."""

import torch
from torch import nn
from torch.distributions import Categorical, Normal, kl_divergence
from showing import show, show_end, show_loss

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
baseline = nn.Linear(3, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *baseline.parameters()], 1e-2)
for episode in range(6):
    state, logs, values, rewards = torch.zeros(3), [], [], []
    for time in range(10):
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        logs.append(choice.log_prob(action))
        values.append(baseline(state).squeeze(-1))
        position = state[0] + (0.2 if action else -0.2)
        rewards.append(float(position))
        state = torch.stack([position, torch.tensor(time / 10), torch.randn(())])
    returns = torch.tensor([sum(rewards[time:]) for time in range(10)])
    advantage = returns - torch.stack(values)
    loss = -(torch.stack(logs) * advantage.detach()).sum() + advantage.square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(episode, loss)
normal = Normal(torch.zeros(2, requires_grad=True), torch.ones(2))
show("reparametrised", normal.rsample((3,)), kl_divergence(normal, Normal(torch.ones(2), torch.ones(2))))
show_end(policy=policy, baseline=baseline)
