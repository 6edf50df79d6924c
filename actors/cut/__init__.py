"""Cut, the fourth actor: whole units leave the view as the last resort."""
