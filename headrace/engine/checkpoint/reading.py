"""Reads a checkpoint folder: its manifests, and what pipeline it belongs to.

Takes files, gives data, or an error that says what is damaged and what can be done. Writes nothing,
takes no lock, and so may be used while a driver runs.
"""

from __future__ import annotations

from headrace.engine.checkpoint.identity import Description
from headrace.engine.checkpoint.manifests import Manifest, damage, number_of, numbered, unseal
from headrace.errors import CheckpointError
from headrace.state.files import Files

#: The file that says which pipeline a checkpoint is of.
PIPELINE = "pipeline.json"


def is_checkpoint(files: Files) -> bool:
    """Whether a folder holds a checkpoint, be it a damaged one."""
    return files.exists(PIPELINE) or bool(epochs_of(files))


def epochs_of(files: Files) -> list[int]:
    """Give the epochs whose manifests are there, oldest first."""
    return numbers(files, "manifests")


def numbers(files: Files, folder: str) -> list[int]:
    """Give the numbers that files in a folder are named by, in order."""
    # Only our own names: editors and file systems leave others in a folder.
    found = ((name, number_of(name)) for name in files.names(folder))
    return sorted(n for name, n in found if n is not None and name == f"{folder}/{numbered(n)}")


def manifest_name(epoch: int) -> str:
    """Give the name of an epoch's manifest below the checkpoint folder."""
    return f"manifests/{numbered(epoch)}"


def read_manifest(files: Files, epoch: int) -> Manifest:
    """Read a manifest; CheckpointError says what is wrong with it and what can be done."""
    name = manifest_name(epoch)
    try:
        found = Manifest.from_bytes(files.read(name))
        if found.epoch != epoch:
            msg = f"it is the manifest of epoch {found.epoch}"
            raise ValueError(msg)
    except FileNotFoundError as e:
        msg = f"{files.path(name)} is not there"
        raise CheckpointError(msg) from e
    except ValueError as e:
        remedy = _remedy(epoch, epochs_of(files))
        raise damage(files.path(name), str(e), remedy) from e
    return found


def _remedy(epoch: int, epochs: list[int]) -> str:
    """Say what can be done about a manifest that is damaged."""
    if epoch != epochs[-1]:
        return f"It is not needed as long as the manifest of epoch {epochs[-1]} is good: remove it"
    earlier = [number for number in epochs if number < epoch]
    back = f"goes back to epoch {earlier[-1]}" if earlier else "starts the pipeline anew"
    return (
        "Manifests appear whole or not at all, so this is no crash's doing. Restore the file, "
        f"or remove it: that {back}, and is safe only if no sink has taken epoch {epoch} yet and "
        "Spark has not logged its batch (spark/*/commits), as it would not read those rows again"
    )


def partitions_in_order(manifest: Manifest) -> list[str]:
    """Give the names of a manifest's state partitions, by superstep and shard."""
    return sorted(manifest.partitions, key=lambda name: [int(part) for part in name.split("-")])


def read_description(files: Files) -> Description | None:
    """Read what pipeline a checkpoint belongs to; None if nothing says so."""
    try:
        return Description.from_json(unseal(files.read(PIPELINE)))
    except FileNotFoundError:
        return None
    except (ValueError, CheckpointError) as e:
        remedy = (
            "Restore the file, or remove it: it is written anew if the pipeline is still the one "
            "that wrote the newest manifest"
        )
        raise damage(files.path(PIPELINE), str(e), remedy) from e
