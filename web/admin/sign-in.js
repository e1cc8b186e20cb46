// Sign in with the stage's identity provider: the authorization code flow of OpenID Connect with PKCE (RFC 7636).
// The provider returns to this page, and its ID token becomes the page's token. Only the API verifies its signature.

import { readClaims } from "../lib/core.js";

const KEY = "hubbub.sign-in"; // in sessionStorage, until the provider has returned
const here = () => location.origin + location.pathname;
const encode = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const random = () => encode(crypto.getRandomValues(new Uint8Array(32)));

/** Leave for the provider. `provider` has the address `authorize` and the id `client` of the page. */
export async function leave({ authorize, client }) {
  const begun = { state: random(), nonce: random(), verifier: random(), hash: location.hash };
  sessionStorage.setItem(KEY, JSON.stringify(begun));
  const challenge = encode(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(begun.verifier)));
  const url = new URL(authorize);
  const query = {
    response_type: "code", client_id: client, redirect_uri: here(), scope: "openid profile",
    state: begun.state, nonce: begun.nonce, code_challenge: challenge, code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Whether the provider has returned to this page. */
export const hasReturned = () => /[?&](code|error)=/.test(location.search);

/**
 * Return the ID token of the sign-in from which the provider has returned. Removes the code from the address.
 *
 * Throws an Error when the reply belongs to another sign-in, or the provider has refused.
 */
export async function finish({ token, client }) {
  const reply = new URLSearchParams(location.search), begun = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  sessionStorage.removeItem(KEY);
  history.replaceState(null, "", here() + (begun?.hash ?? ""));
  if (!begun || reply.get("state") !== begun.state) throw new Error("`state` is that of another sign-in.");
  if (reply.has("error")) throw new Error(reply.get("error_description") ?? reply.get("error"));
  const body = new URLSearchParams({
    grant_type: "authorization_code", client_id: client, redirect_uri: here(), code: reply.get("code"), code_verifier: begun.verifier,
  });
  const response = await fetch(token, { method: "POST", body, credentials: "omit" });
  const { id_token: found, error, error_description: reason } = await response.json();
  if (!response.ok || !found) throw new Error(reason ?? error ?? "The response has no `id_token`.");
  if (readClaims(found).nonce !== begun.nonce) throw new Error("`nonce` is that of another sign-in.");
  return found;
}
