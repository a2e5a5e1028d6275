"""The dashboard's files, as a browser reads them: `api.dashboard` serves them, no code of ours imports them."""
