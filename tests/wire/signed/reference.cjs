// Verifies requests with the package web-bot-auth, which Cloudflare publishes.
//
// Reads a JSON document from standard input: {"keys": {keyid: x}, "messages": [{method, url, headers}]}. Prints one line for
// each message: "verified", or "no: " and the reason. CRAWLGATE_NODE_CLIENTS names the folder with the package.

"use strict";

const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");

const packages = createRequire(`${process.env.CRAWLGATE_NODE_CLIENTS}/`);
const { verify } = packages("web-bot-auth");
const { verifierFromJWK } = packages("web-bot-auth/crypto");

async function verdict({ keys, message }) {
    const [, keyid] = /;keyid="([^"]*)"/.exec(message.headers["signature-input"]);
    const verifier = await verifierFromJWK({ kty: "OKP", crv: "Ed25519", x: keys[keyid] });
    await verify(message, verifier);
    return "verified";
}

async function main() {
    const { keys, messages } = JSON.parse(readFileSync(0, "utf8"));
    for (const message of messages) {
        console.log(await verdict({ keys, message }).catch((error) => `no: ${error}`));
    }
}

main();
