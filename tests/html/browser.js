// SPDX-License-Identifier: GPL-2.0-or-later
//
// browser.js: a page in headless Chromium, driven over its debugging pipe; no package needed but node.
'use strict';
const { spawn } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');

class Page {
	static async open(url, { width = 1400, height = 800, dark = false } = {}) {
		const p = new Page();
		p.profile = fs.mkdtempSync(path.join(os.tmpdir(), 'kvmft-html-'));
		p.errors = [];
		p.waiting = new Map();
		p.id = 0;
		p.rest = '';
		const program = process.env.CHROMIUM || 'chromium';
		p.child = spawn(program, ['--headless=new', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--no-first-run',
			'--disable-dev-shm-usage', `--user-data-dir=${p.profile}`, `--window-size=${width},${height}`],
		{ stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
		p.child.stdio[4].on('data', (d) => p.receive(d.toString()));
		p.timer = setTimeout(() => { console.error('browser: no end within 90 s'); p.child.kill('SIGKILL'); process.exit(1); }, 90000);
		const { targetInfos } = await p.send('Target.getTargets');
		let target = targetInfos.find((t) => t.type === 'page');
		if (!target) target = await p.send('Target.createTarget', { url: 'about:blank' });
		p.session = (await p.send('Target.attachToTarget', { targetId: target.targetId, flatten: true })).sessionId;
		await p.send('Runtime.enable');
		await p.send('Log.enable');
		await p.send('Page.enable');
		await p.send('Performance.enable', { timeDomain: 'threadTicks' });
		await p.size(width, height);
		await p.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
		await p.go(url);
		return p;
	}

	async go(url) {
		const begin = Date.now();
		await this.send('Page.navigate', { url });
		while (!(await this.value('document.documentElement?.dataset.ready === "1"'))) {
			if (this.errors.length || Date.now() - begin > 30000) break;
			await new Promise((r) => setTimeout(r, 20));
		}
		this.opened = Date.now() - begin;
	}

	size(width, height) { return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false }); }

	blank() { return this.send('Page.navigate', { url: 'about:blank' }); }

	// ms that the page's thread ran on a CPU.
	async busy() {
		const { metrics } = await this.send('Performance.getMetrics');
		return metrics.find((m) => m.name === 'TaskDuration').value * 1000;
	}

	receive(text) {
		const parts = (this.rest + text).split('\0');
		this.rest = parts.pop();
		for (const part of parts) {
			const m = JSON.parse(part);
			if (m.id) {
				const w = this.waiting.get(m.id);
				this.waiting.delete(m.id);
				if (m.error) w.reject(new Error(m.error.message));
				else w.resolve(m.result);
			} else if (m.method === 'Runtime.exceptionThrown') {
				const d = m.params.exceptionDetails;
				this.errors.push((d.exception && d.exception.description) || d.text);
			} else if (m.method === 'Runtime.consoleAPICalled' || (m.method === 'Log.entryAdded' && m.params.entry.level === 'error')) {
				this.errors.push(JSON.stringify(m.params));
			}
		}
	}

	send(method, params = {}) {
		const id = ++this.id;
		this.child.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + '\0');
		return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
	}

	async value(expression) {
		const r = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
		if (r.exceptionDetails) throw new Error(r.exceptionDetails.exception.description);
		return r.result.value;
	}

	// A frame is drawn, and what it shows can be looked at.
	frame() { return this.value('new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))'); }

	async key(key) {
		const text = key.length === 1 ? key : { Enter: '\r' }[key], windowsVirtualKeyCode = { Tab: 9, Enter: 13 }[key];
		await this.send('Input.dispatchKeyEvent', { type: text || key !== 'Tab' ? 'keyDown' : 'rawKeyDown', key, text, windowsVirtualKeyCode });
		await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key, windowsVirtualKeyCode });
	}

	mouse(type, x, y, more = {}) { return this.send('Input.dispatchMouseEvent', { type, x, y, ...more }); }

	async click(x, y) {
		await this.mouse('mouseMoved', x, y);
		await this.mouse('mousePressed', x, y, { button: 'left', clickCount: 1 });
		await this.mouse('mouseReleased', x, y, { button: 'left', clickCount: 1 });
	}

	async picture(file) {
		const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
		fs.writeFileSync(file, Buffer.from(data, 'base64'));
	}

	async pdf() {
		const { data } = await this.send('Page.printToPDF', { printBackground: true });
		return Buffer.from(data, 'base64');
	}

	async close() {
		clearTimeout(this.timer);
		try { await this.send('Browser.close'); } catch { /* it may be gone before it answers */ }
		if (this.child.exitCode === null) await new Promise((r) => { this.child.on('exit', r); setTimeout(r, 3000); });
		this.child.kill('SIGKILL');
		fs.rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
	}
}

module.exports = { Page };
