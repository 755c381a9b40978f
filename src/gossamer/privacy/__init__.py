"""The privacy core: guarantees, and what authors of methods release results with (docs/methods/adding-one.md)."""

import typing

from gossamer.lazy import exported, reexports

if typing.TYPE_CHECKING:
    from gossamer.privacy.accounting.calibrate import calibrate_noise as calibrate_noise
    from gossamer.privacy.accounting.calibrate import calibrate_rate as calibrate_rate
    from gossamer.privacy.accounting.calibrate import calibrate_steps as calibrate_steps
    from gossamer.privacy.accounting.cost import bounds as bounds
    from gossamer.privacy.accounting.events import poisson_gaussian as poisson_gaussian
    from gossamer.privacy.certificate.certificate import Certificate as Certificate
    from gossamer.privacy.confined import Confined as Confined
    from gossamer.privacy.guarantee import Guarantee as Guarantee
    from gossamer.privacy.ledger import PrivacyLedger as PrivacyLedger
    from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum as PoissonGaussianSum
    from gossamer.privacy.mechanisms.sanitized_rows import clipped as clipped
    from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient as PerRecordGradient
    from gossamer.privacy.queries import Bounds as Bounds
    from gossamer.privacy.random.noise import Rng as Rng
else:
    _NAMES = reexports(__name__, __file__)
    __all__, __getattr__, __dir__ = exported(__name__, _NAMES)
