"""A LightningModule with the Trainer: manual and automatic optimization, callbacks, checkpoints, validation."""

# farm: needs lightning
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from showing import show, show_end

logging.getLogger("lightning").setLevel(logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", ".*does not have many workers.*")
warnings.filterwarnings("ignore", ".*The number of training batches.*")


class Net(L.LightningModule):
    def __init__(self, manual):
        super().__init__()
        self.automatic_optimization = not manual
        self.body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 3))

    def training_step(self, batch, index):
        x, y = batch
        loss = F.cross_entropy(self.body(x), y)
        self.log("loss", loss)
        show(f"step {index}", float(loss.detach()))
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch, index):
        self.log("validation", F.cross_entropy(self.body(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class Note(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        print("batch", index, trainer.global_step, sorted(trainer.callback_metrics))

    def on_before_zero_grad(self, trainer, module, optimizer):
        print("before zero_grad", type(optimizer).__name__)


L.seed_everything(3)
data = DataLoader(TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,))), 4, shuffle=True)
for manual in (False, True):
    net = Net(manual)
    trainer = L.Trainer(
        max_epochs=2,
        limit_train_batches=3,
        limit_val_batches=1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[Note()],
        num_sanity_val_steps=1,
        enable_checkpointing=False,
        gradient_clip_val=None if manual else 0.5,
        accumulate_grad_batches=1 if manual else 2,
    )
    trainer.fit(net, data, data)
    print(trainer.validate(net, data, verbose=False))
    trainer.save_checkpoint("last.ckpt")
    show_end(net=net)
fabric = L.Fabric(accelerator="cpu", devices=1)
model = nn.Linear(6, 3)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.1))
for x, y in fabric.setup_dataloaders(data):
    optimizer.zero_grad()
    fabric.backward(F.cross_entropy(model(x), y))
    optimizer.step()
show_end(model=model)
