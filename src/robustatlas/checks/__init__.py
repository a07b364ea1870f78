"""What looks at a model without a run of its own: sanity, indicators, remedies, the verdict; records of audits."""
