"""How to run the operations of each capability with the arguments of a call: one module a capability."""
