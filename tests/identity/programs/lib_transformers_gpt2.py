"""A tiny random GPT-2: a loop of one's own, generation with a cache, greedy, sampled and by beams."""

# farm: needs transformers
import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup
from showing import show, show_end, show_loss

transformers.logging.disable_progress_bar()
torch.manual_seed(0)
config = GPT2Config(
    vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=1, pad_token_id=1
)
model = GPT2LMHeadModel(config)
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
schedule = get_cosine_schedule_with_warmup(optimizer, 2, 6)
model.gradient_checkpointing_enable()
for step in range(6):
    ids = torch.randint(2, 40, (3, 10))
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    show_loss(step, loss)
model.gradient_checkpointing_disable()
model.eval()
prompt = torch.tensor([[2, 5, 7]])
mask = torch.ones_like(prompt)
print(model.generate(prompt, attention_mask=mask, max_new_tokens=5, do_sample=False).tolist())
print(model.generate(prompt, attention_mask=mask, max_new_tokens=5, do_sample=True, top_k=5).tolist())
print(model.generate(prompt, attention_mask=mask, max_new_tokens=5, num_beams=3, do_sample=False).tolist())
print(model.generate(prompt, attention_mask=mask, max_new_tokens=5, use_cache=False, do_sample=False).tolist())
model.save_pretrained("saved")
again = GPT2LMHeadModel.from_pretrained("saved")
show("again", again(prompt).logits, len(repr(model)))
model.resize_token_embeddings(45)
print(model.lm_head.weight is model.transformer.wte.weight, model.num_parameters())
show_end(model=model)
