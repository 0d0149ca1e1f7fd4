"""Finds old-style spectral norms of PyTorch that were evaluated before they ever ran in training."""

_ALIGNED = 0.9
"""Cosine from which on two directions are those of a power iteration. Source: chosen by us; chance gives about 0."""


def find_untrained_norms(torch, module):
    """Names of the modules of a model whose spectral norm has given weights and never estimated the norm.

    A forward in training makes `u` the direction of `W v`; one in evaluation divides the weight by what random vectors
    give. Before the first forward of any kind the weight is still the one that it is made from.

    Args:
        module: The model, before its first training forward.
    """
    found = []
    for name, one in list(module.named_modules()):
        for hook in list(one._forward_pre_hooks.values()):
            if type(hook).__name__ != "SpectralNorm" or not hasattr(hook, "reshape_weight_to_matrix"):
                continue
            given = getattr(one, hook.name + "_orig", None)
            weight, u, v = (getattr(one, hook.name + end, None) for end in ("", "_u", "_v"))
            if not all(type(part) in (torch.Tensor, torch.nn.Parameter) for part in (given, weight, u, v)):
                continue
            if weight.data_ptr() == given.data_ptr() or torch.equal(weight.detach(), given.detach()):
                continue
            product = torch.mv(hook.reshape_weight_to_matrix(given.detach()), v)
            cosine = torch.dot(u, product) / (u.norm() * product.norm() + 1e-30)
            if cosine.item() < _ALIGNED:
                found.append(name)
    return found
