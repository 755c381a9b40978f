#!/bin/sh -e
# At the centre, once, in /srv/federation: the certificates of the SuperLink. $1 is its host name, such as centre.example.org.
openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj /CN=federation -keyout ca.key -out ca.pem
openssl req -newkey rsa:3072 -nodes -subj /CN=centre -keyout server.key -out server.csr
echo "subjectAltName=DNS:$1,IP:127.0.0.1" > server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile server.ext -out server.pem
rm server.csr server.ext
