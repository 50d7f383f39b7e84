"""LSTM and GRU with packed sequences, truncated backpropagation, CTC, and losses that are seldom used."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence
from showing import show, show_end, show_loss

torch.manual_seed(0)
lstm, gru, out = nn.LSTM(4, 8, 2, dropout=0.1, bidirectional=True), nn.GRU(16, 6, batch_first=True), nn.Linear(6, 5)
cell = nn.LSTMCell(5, 5)
parameters = [p for module in (lstm, gru, out, cell) for p in module.parameters()]
optimizer = torch.optim.RMSprop(parameters, 1e-2)
hidden = torch.zeros(2, 5), torch.zeros(2, 5)
for step in range(5):
    sequences = [torch.randn(length, 4) for length in (7, 5)]
    packed = pack_padded_sequence(pad_sequence(sequences), [7, 5])
    first, lengths = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    logs = F.log_softmax(out(gru(first)[0]), -1).transpose(0, 1)
    loss = F.ctc_loss(logs, torch.randint(1, 5, (2, 3)), lengths, torch.tensor([3, 2]), zero_infinity=True)
    hidden = cell(logs.mean(0), tuple(h.detach() for h in hidden))
    loss = loss + hidden[0].square().mean() + F.gaussian_nll_loss(hidden[0], torch.zeros(2, 5), torch.ones(2, 5))
    loss = (
        loss
        + F.triplet_margin_loss(hidden[0], hidden[1], torch.randn(2, 5))
        + F.poisson_nll_loss(hidden[0], torch.ones(2, 5))
    )
    loss = loss + F.cosine_embedding_loss(hidden[0], hidden[1], torch.tensor([1.0, -1.0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
show("packed", pack_sequence(sequences).data, *lstm.all_weights[0])
lstm.flatten_parameters()
show_end(lstm=lstm, gru=gru, out=out, cell=cell)
