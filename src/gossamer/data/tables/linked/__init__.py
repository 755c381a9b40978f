"""Tables that are linked by keys, such as patients and their visits: card, records and samples."""
