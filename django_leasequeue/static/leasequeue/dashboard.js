// Refreshes the dashboard: fetches the region that changes, and puts it in the old one's place.
// Without this the page works as well, and has a link to reload it.
"use strict";
(() => {
    const region = document.getElementById("leasequeue-region");
    const status = document.getElementById("leasequeue-refresh-status");
    const toggle = document.getElementById("leasequeue-toggle");
    const reload = document.getElementById("leasequeue-reload");
    if (!region || !status || !toggle || !reload) {
        return;
    }

    const every = Number(region.dataset.every) * 1000;
    const longest = 60000; // between two tries while the server can't be reached
    const patience = 20000; // for an answer
    let timer = null;
    let asking = null; // the controller of the request under way
    let stopped = false; // by the reader, or since the server refuses
    let leaving = false; // a form was sent
    let failures = 0;
    let took = 0; // the last answer, in milliseconds

    function say(text) {
        // Only what is new is read out.
        if (status.textContent !== text) {
            status.textContent = text;
        }
    }

    function later() {
        clearTimeout(timer);
        timer = null;
        if (!stopped && !leaving && !document.hidden) {
            timer = setTimeout(refresh, Math.min(Math.max(every, 10 * took) * 2 ** failures, longest));
        }
    }

    function isBusy() {
        // Whoever marks a text or holds a button would lose it.
        const selection = document.getSelection();
        const marks = selection && !selection.isCollapsed && region.contains(selection.anchorNode);
        return marks || region.querySelector("a:active, button:active, summary:active") !== null;
    }

    function keyed(key) {
        return [...region.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
    }

    function replace(html) {
        const focused = region.contains(document.activeElement)
            ? document.activeElement.dataset.key
            : undefined;
        const open = [...region.querySelectorAll("details[open][data-key]")].map((one) => one.dataset.key);
        const scrolled = [...region.querySelectorAll("[data-key]")]
            .filter((one) => one.scrollLeft)
            .map((one) => [one.dataset.key, one.scrollLeft]);
        // What the reader looks at stays where it is, though what is above it may grow.
        const seen = window.scrollY > 0
            ? [...region.querySelectorAll("[data-key]")].find((one) => one.getBoundingClientRect().top >= 0)
            : undefined;
        const top = seen && seen.getBoundingClientRect().top;

        const fresh = new DOMParser().parseFromString(html, "text/html");
        region.replaceChildren(...fresh.body.childNodes);

        open.forEach((key) => {
            const one = keyed(key);
            if (one) {
                one.open = true;
            }
        });
        scrolled.forEach(([key, left]) => {
            const one = keyed(key);
            if (one) {
                one.scrollLeft = left;
            }
        });
        const same = seen && keyed(seen.dataset.key);
        if (same) {
            window.scrollBy(0, same.getBoundingClientRect().top - top);
        }
        const again = focused === undefined ? null : keyed(focused);
        if (again) {
            again.focus({preventScroll: true});
        }
    }

    function worked() {
        failures = 0;
        document.body.classList.remove("leasequeue-stale");
        say(stopped ? status.dataset.stopped : "");
    }

    function failed(text) {
        failures += 1;
        document.body.classList.add("leasequeue-stale");
        say(text);
    }

    async function refresh() {
        clearTimeout(timer);
        timer = null;
        if (asking || leaving) {
            return;
        }
        if (isBusy()) {
            later();
            return;
        }
        const mine = new AbortController();
        asking = mine;
        const began = performance.now();
        const limit = setTimeout(() => mine.abort(), patience);
        try {
            const response = await fetch(region.dataset.url, {
                credentials: "same-origin",
                redirect: "manual", // to the page where one logs in
                signal: mine.signal,
            });
            if (response.type === "opaqueredirect" || response.status === 403 || response.status === 404) {
                stop();
                failed(status.dataset.refused);
            } else if (!response.ok) {
                failed(status.dataset.unreachable);
            } else {
                const html = await response.text();
                if (!leaving && !mine.signal.aborted) {
                    replace(html);
                    worked();
                }
            }
        } catch {
            if (!leaving && mine.signal.reason !== "stopped") {
                failed(status.dataset.unreachable);
            }
        } finally {
            clearTimeout(limit);
            took = performance.now() - began; // a slow database is asked less often
            asking = null;
            later();
        }
    }

    function name() {
        toggle.textContent = stopped ? toggle.dataset.start : toggle.dataset.stop;
    }

    function stop() {
        stopped = true;
        clearTimeout(timer);
        timer = null;
        if (asking) {
            asking.abort("stopped"); // what is under way must not change the page any more
        }
        name();
    }

    toggle.addEventListener("click", () => {
        if (stopped) {
            stopped = false;
            name();
            refresh();
        } else {
            stop();
            say(status.dataset.stopped);
        }
    });
    reload.addEventListener("click", (event) => {
        // Plain clicks only; and where the server refuses, the page itself leads on.
        if (event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && failures === 0) {
            event.preventDefault();
            refresh();
        }
    });
    region.addEventListener("submit", () => {
        leaving = true;
        clearTimeout(timer);
        if (asking) {
            asking.abort();
        }
    });
    document.addEventListener("visibilitychange", () => {
        clearTimeout(timer);
        timer = null;
        if (!document.hidden && !stopped) {
            refresh();
        }
    });
    window.addEventListener("pageshow", (event) => {
        if (event.persisted) {
            leaving = false;
            later();
        }
    });

    name();
    toggle.hidden = false;
    later();
})();
