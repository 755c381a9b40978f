// A page that was opened from a file gets no worker from Chromium. There the search runs in a hidden frame, which it speaks to as to one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const load = (address) => new Promise((loaded, failed) => {
        const script = frame.contentDocument.createElement("script");
        script.src = address;
        script.onload = loaded;
        script.onerror = failed;
        frame.contentDocument.body.append(script);
      });
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = async (...addresses) => { for (const address of addresses) await load(address); };
      this.ready = load(url);
    }

    async postMessage(data) {
      await this.ready;
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
