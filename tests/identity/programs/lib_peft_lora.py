"""LoRA adapters of peft on a tiny random GPT-2: training, merging, saving, several adapters."""

# farm: needs transformers peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel
from showing import show, show_end, show_loss

transformers.logging.disable_progress_bar()
torch.manual_seed(0)


def base():
    torch.manual_seed(1)
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2))


model = get_peft_model(
    base(), LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["c_attn"], fan_in_fan_out=True)
)
model.print_trainable_parameters()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
for step in range(5):
    ids = torch.randint(2, 40, (3, 10))
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
model.save_pretrained("adapter")
model.eval()
ids = torch.tensor([[3, 4, 5]])
show("adapted", model(ids).logits)
with model.disable_adapter():
    show("plain", model(ids).logits)
model.add_adapter("second", LoraConfig(r=2, target_modules=["c_proj"], fan_in_fan_out=True))
model.set_adapter("second")
show("second", model(ids).logits)
loaded = PeftModel.from_pretrained(base(), "adapter").eval()
show("loaded", loaded(ids).logits)
merged = loaded.merge_and_unload()
show("merged", merged(ids).logits)
print(type(merged).__name__, type(model).__name__, len(repr(model)))
show_end(model=model, merged=merged)
