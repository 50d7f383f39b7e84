"""pytorch-a2c-ppo-acktr-gail: its PPO on a made-up task, to push a point towards the origin.

The environments of the repository need a simulator, so a small one of ours takes their place.
"""

import argparse
import sys
import types

import torch


class Box:
    shape = (2,)


def stand_in():
    module = types.ModuleType("a2c_ppo_acktr.envs")
    module.VecNormalize = type("VecNormalize", (), {})
    sys.modules["a2c_ppo_acktr.envs"] = module


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    torch.manual_seed(seed)
    stand_in()
    from a2c_ppo_acktr.algo.ppo import PPO
    from a2c_ppo_acktr.model import Policy
    from a2c_ppo_acktr.storage import RolloutStorage

    policy = Policy((4,), Box(), base_kwargs={"recurrent": False, "hidden_size": 16})
    agent = PPO(policy, 0.2, 2, 7, 0.5, 0.01, lr=1e-3, eps=1e-5, max_grad_norm=0.5)
    rollouts = RolloutStorage(15, 4, (4,), Box(), policy.recurrent_hidden_state_size)
    generator = torch.Generator().manual_seed(seed)
    observations = torch.randn(4, 4, generator=generator)
    rollouts.obs[0].copy_(observations)
    for update in range(2):
        for step in range(15):
            with torch.no_grad():
                value, action, log_prob, hidden = policy.act(
                    rollouts.obs[step], rollouts.recurrent_hidden_states[step], rollouts.masks[step]
                )
            observations = observations.clone()
            observations[:, :2] += 0.1 * action.clamp(-1, 1)
            reward = -observations[:, :2].square().sum(dim=1, keepdim=True)
            done = torch.rand(4, 1, generator=generator) < 0.1
            observations = torch.where(done, torch.randn(4, 4, generator=generator), observations)
            masks = 1 - done.float()
            rollouts.insert(observations, hidden, action, log_prob, value, reward, masks, torch.ones(4, 1))
        with torch.no_grad():
            value = policy.get_value(rollouts.obs[-1], rollouts.recurrent_hidden_states[-1], rollouts.masks[-1])
        rollouts.compute_returns(value, True, 0.99, 0.95, True)
        print(f"update {update}", *(f"{loss:.4f}" for loss in agent.update(rollouts)))
        rollouts.after_update()


main()
