"""The attacks of ImageNet-UA as published: one file each."""
