;;; What there is to be seen in eglot, from a run that is started there on.  -*- lexical-binding: t -*-

(require 'eglot)
(require 'flymake)

(defun drive-actions (part)
  "The titles of the actions on the line with PART."
  (drive-line part)
  (vconcat (mapcar (lambda (one) (plist-get one :title))
                   (jsonrpc-request (eglot-current-server) :textDocument/codeAction
                                    (list :textDocument (eglot--TextDocumentIdentifier)
                                          :range (list :start (eglot--pos-to-lsp-position)
                                                       :end (eglot--pos-to-lsp-position))
                                          :context '(:diagnostics []))))))

(defun drive-hover ()
  (let (words)
    (eglot-hover-eldoc-function (lambda (found &rest _) (setq words found)))
    (drive-wait "a hover" 20 (lambda () (and words (substring-no-properties words))))))

(defun drive-eglot ()
  (run-hooks 'post-command-hook)
  (drive-wait "the server" 30 (lambda () (eglot-current-server)))
  (let ((before (drive-text)))
    (skyline-profile)
    (drive-wait "the start" 30 (lambda () (drive-messages "Profiling train.py…")))
    (drive-wait "the end" 200
                (lambda () (cl-some (lambda (line) (not (string-match-p "batch sizes follow" line)))
                                    (drive-messages "per iteration"))))
    (drive-saw 'told (vconcat (drive-messages "Profiling train.py")))
    (flymake-start)
    (drive-wait "a finding" 60
                (lambda ()
                  (cl-some (lambda (one)
                             (when (string-match-p "SKY301\\|fused" (flymake-diagnostic-text one))
                               (drive-saw 'finding
                                          `((line . ,(1- (line-number-at-pos (flymake-diagnostic-beg one))))
                                            (message . ,(flymake-diagnostic-text one))))
                               t))
                           (flymake-diagnostics))))
    (drive-line "loss.backward()")
    (drive-saw 'hover (drive-hover))
    (goto-char (point-min))
    (search-forward "batch_size")
    (goto-char (match-beginning 0))
    (drive-saw 'curve (drive-hover))
    (drive-saw 'at-loop (drive-actions "for x, y in loader"))
    (drive-saw 'at-size (drive-actions "loader = DataLoader"))
    (drive-line "optimizer = torch.optim.Adam")
    (undo-boundary)
    (eglot-code-actions (point) (point) "quickfix" t)
    (drive-wait "the change" 20 (lambda () (not (equal (drive-text) before))))
    (drive-saw 'changed (drive-text))
    (drive-undo before)))

(drive #'drive-eglot)
