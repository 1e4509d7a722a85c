"""Generated workloads on a real control plane: does the real scheduler agree with what we buy and whom we let go?

workloads   what is generated from a seed, and how it is written down
rules       where pods may run: the pieces that workloads are made of
instances   instances that are KWOK nodes, registered as K3s would
worlds      one workload's corner of the control plane, with the shipped loop at work in it
rest        until the control plane has nothing left to do
playing     many worlds at once, one phase after the other
"""
