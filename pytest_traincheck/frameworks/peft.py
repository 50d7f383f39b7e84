"""peft. What puts adapters into a model and takes them out again is observed, and what they begin with."""

from __future__ import annotations

from .description import Framework, Observation

_TUNER = "peft.tuners.tuners_utils:BaseTuner"

FRAMEWORK = Framework(
    "peft",
    versions=("peft",),
    observations=(
        Observation("peft.peft_model:PeftModel.save_pretrained", ("safe_serialization",)),
        Observation("peft.tuners.lora.layer:LoraLayer.reset_lora_parameters", ("adapter_name", "init_lora_weights")),
        Observation(f"{_TUNER}.merge_adapter", ("safe_merge",)),
        Observation(f"{_TUNER}.merge_and_unload", ("safe_merge",)),
        Observation(f"{_TUNER}.unload", ()),
        Observation(f"{_TUNER}.unmerge_adapter", ()),
    ),
)
