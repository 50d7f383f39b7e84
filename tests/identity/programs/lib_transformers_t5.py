"""A tiny random T5 with another attention implementation, hidden states and attentions returned."""

# farm: needs transformers
import torch
from transformers import T5Config, T5ForConditionalGeneration
from showing import show, show_end, show_loss

torch.manual_seed(0)
config = T5Config(
    vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0, pad_token_id=0
)
model = T5ForConditionalGeneration(config)
optimizer = torch.optim.Adafactor(model.parameters(), 1e-2)
for step in range(4):
    ids, labels = torch.randint(2, 40, (2, 7)), torch.randint(2, 40, (2, 5))
    labels[:, -1] = -100
    out = model(input_ids=ids, labels=labels, output_attentions=True, output_hidden_states=True)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    show_loss(step, out.loss)
    show("states", *out.decoder_hidden_states, *out.cross_attentions)
model.eval()
print(model.generate(ids, max_new_tokens=4, do_sample=False).tolist(), type(out).__name__, list(out.keys()))
show_end(model=model)
