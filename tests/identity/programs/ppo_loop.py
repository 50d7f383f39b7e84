"""PPO in one file, in the style of CleanRL: vectors of environments, generalised advantages, minibatches, annealing."""

import random

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from showing import show, show_end, show_loss


def layer_init(layer, std=np.sqrt(2), bias=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(4, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(4, 16)), nn.Tanh(), layer_init(nn.Linear(16, 3), std=0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


class Environments:
    def __init__(self, number):
        self.state = np.random.randn(number, 4)

    def step(self, action):
        self.state[:, 0] += (action - 1) * 0.1
        self.state[:, 1:] = np.random.randn(len(self.state), 3)
        return self.state.astype(np.float32), -np.abs(self.state[:, 0]), np.random.rand(len(self.state)) < 0.1


random.seed(1)
np.random.seed(1)
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
agent, envs = Agent(), Environments(4)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
steps, updates = 8, 3
obs, actions = torch.zeros(steps, 4, 4), torch.zeros(steps, 4)
logprobs, rewards, dones, values = (torch.zeros(steps, 4) for _ in range(4))
next_obs, next_done = torch.Tensor(envs.state), torch.zeros(4)
for update in range(updates):
    optimizer.param_groups[0]["lr"] = (1.0 - update / updates) * 2.5e-3
    for step in range(steps):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        state, reward, done = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).view(-1)
        next_obs, next_done = torch.Tensor(state), torch.Tensor(done.astype(np.float32))
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages, last = torch.zeros_like(rewards), 0
        for t in reversed(range(steps)):
            nonterminal = 1.0 - (next_done if t == steps - 1 else dones[t + 1])
            following = next_value if t == steps - 1 else values[t + 1]
            delta = rewards[t] + 0.99 * following * nonterminal - values[t]
            advantages[t] = last = delta + 0.99 * 0.95 * nonterminal * last
        returns = advantages + values
    flat = [x.reshape((-1, *x.shape[2:])) for x in (obs, logprobs, actions, advantages, returns, values)]
    indices = np.arange(steps * 4)
    for _ in range(2):
        np.random.shuffle(indices)
        for start in range(0, len(indices), 16):
            b_obs, b_log, b_act, b_adv, b_ret, b_val = (x[indices[start : start + 16]] for x in flat)
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs, b_act.long())
            ratio = (newlogprob - b_log).exp()
            b_adv = (b_adv - b_adv.mean()) / (b_adv.std() + 1e-8)
            policy_loss = torch.max(-b_adv * ratio, -b_adv * torch.clamp(ratio, 0.8, 1.2)).mean()
            clipped = b_val + torch.clamp(newvalue.view(-1) - b_val, -0.2, 0.2)
            value_loss = 0.5 * torch.max((newvalue.view(-1) - b_ret) ** 2, (clipped - b_ret) ** 2).mean()
            loss = policy_loss - 0.01 * entropy.mean() + value_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    show_loss(update, loss)
    show("returns", returns, actions)
show_end(agent=agent)
