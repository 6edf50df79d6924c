"""Who acts: one folder for each of the four actors, the pure core they decide with, and the shells around them.

Words that are ours stand in `infra/docs/glossary.md`, each with what others call it.
"""
