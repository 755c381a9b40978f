"""Made-up scans for trials and timings: DICOM files of 12 bits, several of each patient. Nobody's records are in them.

    python examples/data/scans_dicom.py FOLDER [--patients 600] [--scans 5] [--side 256] [--export]

writes FOLDER/clear/P0000_0.dcm and so on: a folder of each class, with the patient in the file name and in the header.
With --export, the files are as an archive writes them: IM000000 and so on without an ending, beside one labels.csv.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.uid import DigitalXRayImageStorageForPresentation, ExplicitVRLittleEndian, generate_uid

CLASSES = ("clear", "shadow")
TOP = 4095
"""The largest value of 12 bits."""


def scan(draw: np.random.Generator, side: int, shadow: bool) -> np.ndarray:
    """One picture: two dark fields on a bright ground, and in one of them perhaps a bright spot. uint16 [side, side]"""
    y, x = np.mgrid[-1 : 1 : side * 1j, -1 : 1 : side * 1j]
    pixels = np.full((side, side), 2600.0)
    for middle in (-0.45, 0.45):
        shift, width, height = draw.normal(0, 0.03), draw.normal(0.3, 0.02), draw.normal(0.65, 0.03)
        pixels -= 1900 * np.exp(-(((x - middle - shift) / width) ** 4) - (y / height) ** 4)
    if shadow:
        right, down = draw.choice([-0.45, 0.45]), draw.uniform(-0.35, 0.35)
        pixels += 1500 * np.exp(-((x - right) ** 2 + (y - down) ** 2) / 0.015)
    return np.clip(pixels + draw.normal(0, 60, pixels.shape), 0, TOP).astype(np.uint16)


def write(path: Path, pixels: np.ndarray, patient: str) -> None:
    """One DICOM file of 12 bits in 16."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = DigitalXRayImageStorageForPresentation
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=[str(path)])
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    data.PatientID, data.PatientName, data.Modality = patient, "Made^Up", "DX"
    data.Rows, data.Columns = pixels.shape
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation = 16, 12, 11, 0
    data.PixelData = pixels.tobytes()
    data["PixelData"].VR = "OW"
    data.save_as(path, enforce_file_format=True)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--patients", type=int, default=600)
    parser.add_argument("--scans", type=int, default=5)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--export", action="store_true")
    asked = parser.parse_args()
    draw = np.random.default_rng(0)
    rows = [("name", "label")]
    for patient in range(asked.patients):
        shadow = bool(draw.integers(2))
        for number in range(asked.scans):
            name = f"IM{len(rows) - 1:06}" if asked.export else f"{CLASSES[shadow]}/P{patient:04}_{number}.dcm"
            path = asked.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, scan(draw, asked.side, shadow), f"P{patient:04}")
            rows.append((name, CLASSES[shadow]))
    if asked.export:
        with (asked.folder / "labels.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
