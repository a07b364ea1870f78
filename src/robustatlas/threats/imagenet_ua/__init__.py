"""The nineteen attacks of ImageNet-UA (Kaufmann et al. 2023) as sound, nested threat models: one file each."""
