"""A tiny random BERT with the Trainer of transformers: evaluation, checkpoints, callbacks, logs."""

# farm: needs transformers accelerate
import os

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from showing import show, show_end


class Words(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        ids = torch.randint(3, 50, (8,), generator=generator)
        return {"input_ids": ids, "attention_mask": (ids > 8).long(), "labels": index % 3}


class Note(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        print("log", sorted((k, v) for k, v in logs.items() if "runtime" not in k and "per_second" not in k))

    def on_step_end(self, args, state, control, **kwargs):
        print("step", state.global_step, sorted(kwargs))


transformers.logging.disable_progress_bar()
torch.manual_seed(0)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, num_labels=3,
    max_position_embeddings=16,
)  # fmt: skip
model = BertForSequenceClassification(config)
arguments = TrainingArguments(
    output_dir="out", max_steps=5, per_device_train_batch_size=4, logging_steps=1, eval_strategy="steps", eval_steps=3,
    save_steps=4, report_to=[], use_cpu=True, gradient_accumulation_steps=2, warmup_steps=2, disable_tqdm=True, seed=3,
    label_smoothing_factor=0.1,
)  # fmt: skip
trainer = Trainer(model=model, args=arguments, train_dataset=Words(), eval_dataset=Words(), callbacks=[Note()])
trainer.remove_callback(transformers.PrinterCallback)  # prints times
result = trainer.train()
show("loss", result.training_loss)
print([float(x).hex() for x in trainer.predict(Words()).predictions.ravel()[:6]])
print(sorted(os.listdir("out")), sorted(os.listdir("out/checkpoint-4")))
os.remove("out/checkpoint-4/training_args.bin")
os.remove("out/checkpoint-5/training_args.bin")
for name in ("out/checkpoint-4/trainer_state.json", "out/checkpoint-5/trainer_state.json"):
    os.remove(name)
show_end(model=model)
