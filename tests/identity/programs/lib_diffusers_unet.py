"""The UNet of diffusers: noise prediction, averaged weights, sampling."""

# farm: needs diffusers
import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DModel
from diffusers.training_utils import EMAModel
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=8,
    in_channels=1,
    out_channels=1,
    block_out_channels=(8, 16),
    layers_per_block=1,
    norm_num_groups=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    attention_head_dim=4,
)
noise_schedule = DDPMScheduler(num_train_timesteps=20)
average = EMAModel(model.parameters(), decay=0.9)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for step in range(4):
    clean, noise, times = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8), torch.randint(0, 20, (2,))
    loss = F.mse_loss(model(noise_schedule.add_noise(clean, noise, times), times).sample, noise)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.step(model.parameters())
    show_loss(step, loss)
average.copy_to(model.parameters())
model.eval()
sample = torch.randn(1, 1, 8, 8)
noise_schedule.set_timesteps(4)
with torch.no_grad():
    for time in noise_schedule.timesteps:
        sample = noise_schedule.step(model(sample, time).sample, time, sample).prev_sample
show("sample", sample)
show_end(model=model)
