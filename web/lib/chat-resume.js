// What resumes a chat after a reload. The storage of a tab is empty in another tab and after the tab is closed.

const RESUMABLE = 60_000; // ms for which the server keeps a lost connection's place

/** Store under a key what resumes a chat, with details of the caller, and suspend the chat. */
export function suspend(key, chat, details) {
  try {
    if (chat?.resumeToken && chat.state !== "idle") sessionStorage.setItem(key, JSON.stringify({ ...details, token: chat.resumeToken, at: Date.now() }));
    else sessionStorage.removeItem(key);
  } catch { /* the browser forbids storage: a reload ends the chat */ }
  chat?.suspend();
}

/** Return the stored details with the token, once and within a minute, or null. */
export function takeSuspended(key) {
  try {
    const stored = JSON.parse(sessionStorage.getItem(key));
    sessionStorage.removeItem(key);
    return stored && Date.now() - stored.at <= RESUMABLE ? stored : null;
  } catch {
    return null; // nothing to resume
  }
}
