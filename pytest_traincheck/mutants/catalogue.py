"""The kinds of mistakes in words: what each is, what it would mean, and what a pipeline without a place for it lacks.

Without torch, so that every part of the tool can read it.
"""

from __future__ import annotations

from . import mistakes
from .kind import Kind


def _kinds(group: str, *rows: tuple[str, str, str, str]) -> tuple[Kind, ...]:
    return tuple(Kind(name, group, mistake, meaning, needs) for name, mistake, meaning, needs in rows)


_OPTIMIZERS = _kinds(
    "optimizers",
    ("step-every-second", "Every second `step` of an optimizer is skipped.",
     "Half of the batches are computed and thrown away.", "second step of an optimizer"),
    ("step-never", "One optimizer never steps.", "What it holds stays as it was initialised.",
     "step of an optimizer"),
    ("step-twice", "Every `step` is called twice.", "The learning rate is twice what it says.",
     "step of an optimizer"),
    ("optimizer-made-anew", "The optimizer is made again before every step.",
     "Momentum and averages of gradients are lost each time.", "optimizer with a state"),
    ("optimizer-of-copies", "The optimizer is built over copies of the parameters.",
     "It updates tensors that no model uses, and the model never learns.", "optimizer"),
    ("parameter-left-out", "One weight is left out of the optimizer.",
     "A part of the model stays as it was initialised.", "optimizer with several parameters"),
    ("parameter-frozen", "One parameter gets `requires_grad=False`.",
     "A part of the model stays as it was initialised.", "optimizer with several trainable parameters"),
    ("learning-rate-times-ten", "The learning rate is ten times what it was.",
     "Training may diverge, or find a worse minimum.", "optimizer with a learning rate"),
    ("momentum-changed", "The momentum is half of what it was.", "Training is slower, and noisier.",
     "optimizer with momentum"),
    ("betas-changed", "The first of the optimizer's `betas` is half of what it was.",
     "Training is noisier.", "optimizer with betas"),
    ("eps-changed", "The optimizer's `eps` is ten thousand times what it was.",
     "Small gradients hardly move their parameters.", "optimizer with an eps"),
    ("weight-decay-lost", "The weight decay is zero.", "The model overfits.", "optimizer with weight decay"),
    ("weight-decay-everywhere", "All parameter groups have the weight decay of the one with most.",
     "Norms and biases are pulled to zero.", "optimizer whose groups differ in weight decay"),
)  # fmt: skip

_GRADIENTS = _kinds(
    "gradients",
    ("zero-grad-skipped", "`zero_grad` is never called.", "Gradients of all steps add up.",
     "call of `zero_grad`"),
    ("zero-grad-partial", "`zero_grad` leaves out one parameter.", "The gradients of one parameter add up.",
     "call of `zero_grad` that finds gradients"),
    ("zero-grad-within-accumulation", "`zero_grad` is called before every `backward` of an accumulation.",
     "Only the last of the accumulated batches counts.", "accumulation of gradients"),
    ("accumulation-not-normalised", "The loss is not divided by the number of accumulated batches.",
     "Gradients are several times too large.", "accumulation of gradients"),
    ("loss-scaled", "The loss is multiplied by 0.1 before `backward`.", "Gradients are ten times too small.",
     "`Tensor.backward`"),
    ("backward-skipped", "Every third `backward` is skipped.", "Some batches are computed and thrown away.",
     "third `Tensor.backward`"),
    ("output-detached", "The output of the first layer is detached.",
     "The layer gets no gradient and stays as it was initialised.",
     "model with several trained layers that is called in training mode"),
    ("clipping-dropped", "Gradients are not clipped.", "One bad batch can throw the model off.",
     "clipping of gradients"),
    ("clipping-times-ten", "Gradients are clipped at ten times the norm.", "One bad batch can throw the model off.",
     "call of `clip_grad_norm_`"),
    ("clipping-by-another-norm", "Gradients are clipped by their 1-norm.", "Clipping bites much too early.",
     "call of `clip_grad_norm_`"),
    ("clipping-before-backward", "Gradients are clipped before `backward`.",
     "Clipping sees the gradients of the step before, or none.", "call of `clip_grad_norm_`"),
    ("clipping-after-step", "Gradients are clipped after the optimizer's step.",
     "The optimizer uses gradients that are not clipped.", "call of `clip_grad_norm_`"),
)  # fmt: skip

_PRECISION = _kinds(
    "precision",
    ("autocast-off", "`autocast` is not enabled.", "Training is slower and takes more memory.",
     "autocast"),
    ("autocast-in-another-dtype", "`autocast` uses float16 for bfloat16, or the other way round.",
     "Gradients underflow, or precision is lost.", "autocast to float16 or bfloat16"),
    ("scaler-skips-steps", "Every second step of a `GradScaler` is skipped, as after an overflow.",
     "Half of the batches are thrown away.",
     "second step of a `GradScaler`"),
    ("loss-not-scaled", "`backward` starts from the loss before `GradScaler.scale`.",
     "Gradients underflow, and are divided by the scale nevertheless.", "`GradScaler`"),
    ("scaler-never-updated", "`GradScaler.update` is never called.",
     "The scale is never lowered after an overflow.", "`GradScaler`"),
    ("unscale-omitted", "`GradScaler.unscale_` is not called before clipping.",
     "Clipping sees gradients that are scaled up, and makes them vanish.", "call of `GradScaler.unscale_`"),
)  # fmt: skip

_MODES = _kinds(
    "modes",
    ("left-in-eval", "`train()` is not called after an evaluation.",
     "Training goes on without dropout and with frozen statistics.", "`train()` after an `eval()`"),
    ("trained-in-eval", "The model is in evaluation mode from the first step.",
     "It trains without dropout and with frozen statistics.", "training forward pass of a model in training mode"),
    ("evaluated-in-train-mode", "`eval()` is not called.",
     "Evaluation is noisy, and moves the statistics of the training.", "call of `eval()`"),
    ("evaluated-with-gradients", "Evaluation runs without `no_grad`.",
     "It takes the memory of a training step.", "forward pass under `no_grad` of a model that trains"),
)  # fmt: skip

_LOSSES = _kinds(
    "losses",
    ("loss-summed", "The loss is summed over the batch instead of averaged.",
     "Gradients grow with the batch size.", "loss function that averages"),
    ("loss-averaged", "The loss is averaged over the batch instead of summed.",
     "Gradients are too small by the batch size.", "loss function that sums"),
    ("targets-shifted", "Targets are shifted by one place.", "The model learns from wrong answers.",
     "loss function with targets"),
    ("softmax-before-loss", "Probabilities are given to a loss that takes logits.",
     "Gradients are small, and the model never becomes sure.", "cross-entropy of logits"),
    ("label-smoothing-lost", "The loss has no label smoothing.", "The model becomes too sure of itself.",
     "label smoothing"),
    ("class-weights-lost", "The loss has no class weights.", "Rare classes are neglected.",
     "loss function with weights"),
    ("loss-of-half-the-batch", "The loss is taken of the first half of the batch.",
     "Half of the data is never learned from.", "loss function whose input and target have the samples first"),
)  # fmt: skip

_LAYERS = _kinds(
    "layers",
    ("dropout-off", "Dropout drops nothing.", "The model overfits.", "dropout in training"),
    ("dropout-in-evaluation", "Dropout is active in evaluation.", "Evaluation and inference are noisy.",
     "dropout in evaluation"),
    ("batch-norm-momentum-changed", "The momentum of batch norms is one minus what it was.",
     "Running statistics are those of the last batches.", "batch norm with statistics"),
    ("batch-norm-frozen", "Batch norms use and keep their first statistics in training.",
     "Activations are not normalised.", "batch norm in training mode"),
    ("norm-eps-changed", "The `eps` of norms is a thousand times what it was.",
     "Small activations are not normalised.", "layer norm, group norm or batch norm"),
    ("attention-mask-dropped", "Attention gets no mask.", "Positions see what they must not see.",
     "attention function with a mask"),
    ("masked-fill-skipped", "`masked_fill` fills nothing.", "What should be hidden counts.",
     "`masked_fill` of something that is trained"),
    ("activation-dropped", "One activation function does nothing.", "Two layers are as good as one.",
     "module that is an activation function"),
    ("inputs-not-normalised", "The inputs are ten times what they were.",
     "The first layer sees another scale than it was made for.",
     "floating-point input of a model in training"),
)  # fmt: skip

_DATA = _kinds(
    "data",
    ("one-batch-reused", "The loader gives its first batch again and again.",
     "The model learns one batch by heart.", "second batch of a `DataLoader`"),
    ("shuffling-dropped", "Samples come in the order of the data set.", "Batches are alike, epoch after epoch.",
     "sampler that shuffles"),
    ("set-epoch-ignored", "`DistributedSampler.set_epoch` is not called.",
     "Every epoch has the same order.", "`set_epoch` of a second epoch"),
    ("one-shard-for-all", "All ranks get the shard of the first.",
     "The ranks do the same work, and most of the data is never seen.", "`DistributedSampler` on a second rank"),
    ("workers-seeded-alike", "All workers of a loader have the same random seed.",
     "Augmentations repeat themselves.", "second worker of a `DataLoader`"),
    ("batch-size-halved", "The loader's batches are half as large.", "Gradients are noisier than they should be.",
     "`DataLoader` with a batch size"),
    ("same-numbers-drawn", "The random generator is set back after every step.",
     "Noise, dropout and augmentation are the same in every step.", "second step of an optimizer"),
)  # fmt: skip

_BATCHES = _kinds(
    "batches",
    ("labels-shifted-in-batches", "Every label of a batch is the next class.", "The model learns from wrong answers.",
     "batch with classes beside its inputs"),
    ("labels-permuted-in-batches", "Every label of a batch belongs to the example before.",
     "The model learns from wrong answers.", "batch with labels beside its inputs"),
    ("masks-inverted-in-batches", "The masks of a batch hide what they should show.",
     "The model sees padding, or nothing but what it should guess.", "batch with a mask beside its inputs"),
    ("inputs-zeroed-in-batches", "Every fourth example of a batch is zero.", "A quarter of the data is lost.",
     "batch of a `DataLoader`"),
    ("inputs-noised-in-batches", "Every fourth example of a batch is full of noise.",
     "A quarter of the data is hard to tell apart.", "batch with floating-point inputs"),
)  # fmt: skip

_RUNS = (
    Kind("run-cut-short", "runs", "The program ends in good order after half of its steps.",
         "The model is trained half as long as it should be, and nobody says so.", "step of an optimizer",
         by_number=True),
)  # fmt: skip

_SCHEDULES = _kinds(
    "schedules",
    ("scheduler-skipped", "The scheduler never steps.", "The learning rate stays what it was at the start.",
     "step of a scheduler"),
    ("scheduler-twice", "The scheduler steps twice each time.", "The learning rate falls too early.",
     "step of a scheduler"),
    ("scheduler-every-second", "The scheduler steps every second time.", "The learning rate falls too late.",
     "second step of a scheduler"),
    ("scheduler-before-optimizer", "The scheduler steps before the optimizer.",
     "The first value of the schedule is never used.", "step of a scheduler that needs no loss"),
)  # fmt: skip

_MODELS = _kinds(
    "models",
    ("initialisation-scaled", "The first weight is initialised three times as large.",
     "Signals grow from layer to layer.", "weight that is initialised by `torch.nn.init`"),
    ("initialisation-constant", "All elements of the first weight begin with the same number.",
     "Its units learn the same, and are as good as one.", "weight that is initialised by `torch.nn.init`"),
    ("initialisation-drawn-anew", "The first weight is drawn once more after it was initialised.",
     "It has another distribution, and whatever is drawn later is something else.",
     "weight that is initialised by `torch.nn.init`"),
    ("initialisation-skipped", "The first weight is initialised to zero.", "The layer passes nothing on.",
     "weight that is initialised by `torch.nn.init`"),
    ("tied-weights-broken", "Tied weights are two parameters.", "They drift apart.", "tied weights"),
    ("model-not-restored", "The model's state is not loaded.", "What was learned before is lost.",
     "`load_state_dict` of a model"),
    ("optimizer-not-restored", "The optimizer's state is not loaded.", "Momentum and averages are lost.",
     "`load_state_dict` of an optimizer"),
    ("scheduler-not-restored", "The scheduler's state is not loaded.", "The schedule begins again.",
     "`load_state_dict` of a scheduler"),
    ("average-not-updated", "The moving average of the weights is never updated.",
     "What is evaluated or followed stays untrained.", "moving average of weights"),
)  # fmt: skip

_RANKS = _kinds(
    "ranks",
    ("all-reduce-dropped-on-one-rank", "One rank does not use what its `all_reduce` gives.",
     "It goes on with its own values, and the ranks drift apart.",
     "`all_reduce` of the pipeline's own on several ranks"),
    ("all-reduce-corrupted-on-one-rank", "One rank gets another result from `all_reduce`, off by one percent.",
     "The ranks drift apart.", "`all_reduce` of the pipeline's own on several ranks"),
    ("all-reduce-skipped", "No rank calls `all_reduce`.", "Every rank goes on with its own values.",
     "`all_reduce` of the pipeline's own on several ranks"),
    ("broadcast-corrupted-on-one-rank", "One rank gets another result from `broadcast`, off by one percent.",
     "The ranks begin apart.", "`broadcast` of the pipeline's own on several ranks"),
    ("ranks-begin-apart", "One rank begins with other parameters than the rest, off by one percent.",
     "The ranks never agree.", "`DistributedDataParallel` on several ranks"),
    ("raw-module-called", "The raw module is called instead of its `DistributedDataParallel` wrapper.",
     "Gradients are not averaged over the ranks.", "`DistributedDataParallel`"),
    ("no-sync-over-all", "All passes run under `no_sync`.", "Gradients are never averaged over the ranks.",
     "`DistributedDataParallel`"),
    ("clipping-on-one-rank", "One rank does not clip its gradients.", "The ranks drift apart.",
     "clipping of gradients on several ranks"),
    ("learning-rate-differs-on-one-rank", "One rank has twice the learning rate.", "The ranks drift apart.",
     "optimizer on several ranks"),
)  # fmt: skip

KINDS: tuple[Kind, ...] = (
    *_GRADIENTS, *_OPTIMIZERS, *_SCHEDULES, *_PRECISION, *_MODES, *_LOSSES, *_LAYERS, *_DATA, *_BATCHES, *_MODELS,
    *_RANKS, *_RUNS, *(module.KIND for module in mistakes.modules()),
)  # fmt: skip
"""All kinds, in the order in which they are planted and shown."""

COUNTED = "@"
"""Between a kind and how many places for it were counted."""

CENSUS = "census"
"""In the place of a kind: make no mistake, and count where each could have been made."""
