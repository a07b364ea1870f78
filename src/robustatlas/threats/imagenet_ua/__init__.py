"""The nineteen attacks of ImageNet-UA (Kaufmann et al. 2023) as sound, nested sets: one file each."""
