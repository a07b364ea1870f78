"""Models that answer over a network: how they are asked, and what they answered."""
