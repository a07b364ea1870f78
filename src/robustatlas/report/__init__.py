"""What a person looks at: figures for notebooks and papers, the report page of a run, and the leaderboard site."""
