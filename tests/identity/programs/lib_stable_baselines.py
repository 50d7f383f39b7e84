"""PPO and DQN of stable-baselines3 on a small environment of one's own."""

# farm: needs stable_baselines3 gymnasium
import gymnasium
import numpy as np
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from showing import show, show_end


class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.time = 0.0, 0
        return self._look(), {}

    def _look(self):
        return np.array([self.at, self.time / 10, self.np_random.uniform(-1, 1)], np.float32)

    def step(self, action):
        self.at = float(np.clip(self.at + (0.2 if action else -0.2), -1, 1))
        self.time += 1
        return self._look(), self.at, self.time >= 10, False, {}


class Note(BaseCallback):
    def _on_step(self):
        return True

    def _on_rollout_end(self):
        show("rollout", self.num_timesteps, *self.model.policy.parameters())


ppo = PPO(
    "MlpPolicy", Walk(), n_steps=32, batch_size=16, n_epochs=2, seed=0, device="cpu", policy_kwargs={"net_arch": [16]}
)
ppo.learn(96, callback=Note())
print(sorted((name, float(value).hex()) for name, value in ppo.logger.name_to_value.items() if "time" not in name))
print(ppo.predict(np.zeros(3, np.float32), deterministic=True))
dqn = DQN(
    "MlpPolicy",
    Walk(),
    learning_starts=10,
    train_freq=4,
    batch_size=8,
    seed=0,
    device="cpu",
    policy_kwargs={"net_arch": [16]},
)
dqn.learn(60)
ppo.save("ppo")
loaded = PPO.load("ppo", device="cpu")
show("loaded", *loaded.policy.parameters())
import os  # noqa: E402

os.remove("ppo.zip")  # holds times
show_end(ppo=ppo.policy, dqn=dqn.policy)
print(torch.get_num_threads())
