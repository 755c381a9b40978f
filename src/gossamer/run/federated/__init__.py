"""Federated GS-WGAN over Flower: records never leave their owner (Chen, Orekondy, Fritz 2020, sections 4 and 5.4).

`messages.py` is all that goes over the wire, `client.py` who holds records, `panel.py` the server's side of the loop,
`server.py` a whole run, `local.py` one machine, `link.py` separate processes. The loop is that of `methods/gs_wgan`.
"""
