"""What all adapters share: messages of a framework as ours and back, and which conversation they continue.

Each adapter is a module beside this package, under the name that its users import: `jettison_client.langchain`.
"""
