"""What is said: types, facts, subjects, codec, provider formats and the client. Imports nothing of ours."""
