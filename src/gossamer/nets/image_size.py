"""Which image sizes a network makes."""

from gossamer.errors import RequestError


def channels_and_side(shape: tuple[int, ...], sides: tuple[int, ...], networks: str) -> tuple[int, int]:
    """Channels of a square image, and its side.

    Raises:
        RequestError: if the networks, named in words, make no images of this shape.
    """
    if len(shape) == 3 and shape[0] > 0 and shape[1] == shape[2] and shape[1] in sides:
        return shape[0], shape[1]
    sizes = " or ".join(f"{side}x{side}" for side in sides)
    raise RequestError(
        f"{networks} make images of {sizes} pixels, not of shape {'x'.join(map(str, shape))}. "
        f"Set shape = [channels, {sides[-1]}, {sides[-1]}] in the card: the readers resize to it."
    )
