#!/bin/sh -e
# At a site, once, as root: two users, a group that both are in, and the key of the SuperNode. The site's name is its comment.
groupadd federation
useradd -m -G federation gossamer
useradd -m -G federation flower
install -d -m 0700 -o gossamer /srv/gossamer
sudo -u flower ssh-keygen -q -t ecdsa -b 384 -N '' -C "$1" -f /home/flower/site
sudo -u flower test ! -r /srv/gossamer  # the user of the SuperNode may not read the records
echo "Send /home/flower/site.pub to the centre."
