"""Follows evaluated copies of the trained PaddlePaddle model: whether they ever change, and their batch norms."""

from ..inspection import parameter_stats


class WeightProgress(parameter_stats.WeightProgress):
    """The trained and the evaluated weights of one process, and what becomes of copies that are evaluated."""

    def compare_copy(self, own, values):
        """Compares a copy with how it was found: its weights, and the first running mean of a layer in evaluation mode.

        A model of another origin that never changes is no copy. A right average has the mean of its making within the
        first evaluation only, which is why that one does not count.

        Args:
            own: What is known of it.
            values: Some of its weights now.
        """
        layer, trained = own["module"](), own["trained"]
        mean = self._first_mean(layer)
        if "found" not in own:
            own.update(found=values, mean=mean, changed=False, stale=0)
        own["changed"] = own["changed"] or values != own["found"]
        if mean is not None and mean == own["mean"] and not layer.training:
            own["stale"] += len(own["rows"]) > 1 and self._first_mean(trained.module()) not in (None, mean)
        copies = [one for one in self._evaluated.values() if "found" in one]
        copies = [one for one in copies if one["changed"] or one["found"] == one["trained"].first]
        self._inspector.monitor.loop.facts["copies"] = [
            {
                "type": one["type"],
                "calls": one["steps"],
                "steps": one["steps"],
                "last": one["last"],
                "changed": one["changed"],
                "stale_norms": one["stale"],
            }
            for one in copies[: parameter_stats.MOST_TRAINED]
        ]

    def _first_mean(self, layer):
        """Some values of the running mean of a model's first batch norm, `None` without one."""
        parts = layer.sublayers(include_self=True) if layer is not None else ()
        mean = next((one._mean for one in parts if hasattr(one, "_mean") and hasattr(one, "_momentum")), None)
        return None if mean is None else self._values([mean])
