"""stable-baselines3: one of its algorithms on a made-up task, to push a point towards the origin.

`--resume` saves the agent in the middle, loads it and goes on.
"""

import argparse
import random
import sys
import types

import numpy as np
import torch

# Imported for videos that nobody takes here; gymnasium has moved it since.
recorder = types.ModuleType("gymnasium.wrappers.monitoring")
recorder.video_recorder = types.ModuleType("gymnasium.wrappers.monitoring.video_recorder")
sys.modules[recorder.__name__], sys.modules[recorder.video_recorder.__name__] = recorder, recorder.video_recorder

try:  # Older commits want gym, newer ones its successor.
    from stable_baselines3.common.env_checker import gym
except ImportError:
    import gymnasium as gym


def make_task(seed, discrete):
    class Task(gym.Env):
        def __init__(self, number):
            self.generator = np.random.default_rng((seed, number))
            self.observation_space = gym.spaces.Box(-10, 10, (3,), np.float32)
            self.action_space = gym.spaces.Discrete(3) if discrete else gym.spaces.Box(-1, 1, (1,), np.float32)
            self.place, self.time = np.zeros(3, np.float32), 0

        def seed(self, seed=None):
            return [seed]

        def reset(self, **_):
            self.place, self.time = self.generator.normal(size=3).astype(np.float32), 0
            return (self.place.copy(), {}) if "gymnasium" in gym.__name__ else self.place.copy()

        def step(self, action):
            self.time += 1
            self.place[0] += 0.3 * (float(action) - 1 if discrete else float(np.asarray(action).reshape(-1)[0]))
            reward, done = -float(np.square(self.place[0])), self.time >= 7
            if "gymnasium" in gym.__name__:
                return self.place.copy(), reward, done, False, {}
            return self.place.copy(), reward, done, {}

    return Task


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--algorithm", choices=("ppo", "sac", "dqn"), required=True)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    np.random.seed(arguments.seed)  # what the repository draws from
    torch.manual_seed(arguments.seed)
    import stable_baselines3
    from stable_baselines3.common.vec_env import DummyVecEnv

    task = make_task(arguments.seed, arguments.algorithm == "dqn")
    count = 2 if arguments.algorithm == "dqn" else 1
    environments = DummyVecEnv([lambda number=number: task(number) for number in range(count)])
    kind, settings, steps = {
        "ppo": ("PPO", {"n_steps": 24, "batch_size": 12, "n_epochs": 2}, 48),
        "sac": ("SAC", {"learning_starts": 10, "batch_size": 8, "buffer_size": 200}, 22),
        "dqn": (
            "DQN",
            {"learning_starts": 8, "batch_size": 8, "buffer_size": 200, "train_freq": 1, "target_update_interval": 8},
            40,
        ),
    }[arguments.algorithm]
    algorithm = getattr(stable_baselines3, kind)
    agent = algorithm("MlpPolicy", environments, policy_kwargs={"net_arch": [16, 16]}, seed=arguments.seed, **settings)
    agent.learn(steps)
    if arguments.resume:
        agent.save("agent")
        algorithm.load("agent", env=environments).learn(steps)


main()
