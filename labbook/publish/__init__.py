"""From the notebook to what a team reads: weekly reports and the static site."""
